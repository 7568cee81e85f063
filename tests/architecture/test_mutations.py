"""Every mutation still has its place in the code, and the tests that should see it."""

from __future__ import annotations

import re

import pytest

from tests.mutations.__main__ import ROOT, Mutation, load


@pytest.mark.parametrize("mutation", load(), ids=lambda mutation: mutation.name)
def test_a_mutation_can_be_made_and_be_seen(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.find) == 1, f"{mutation.file} no longer has it just once"
    assert mutation.tests
    for test in mutation.tests:
        path, *names = re.sub(r"\[.*", "", test).split("::")
        assert (ROOT / path).exists(), path
        code = "\n".join(
            one.read_text(encoding="utf-8")
            for one in [ROOT / path, *ROOT.glob("tests/**/conformance*.py")]
            if one.is_file()
        )
        for name in names:
            assert re.search(rf"(def|class) {re.escape(name)}\b", code), f"{path} has no {name}"
