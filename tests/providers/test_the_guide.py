"""The guide to a new provider, followed to the letter: its files are taken from the page and put through the suite."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest

import kbsync.providers
import tests.providers
from kbsync.providers import declaration, registry
from kbsync.providers.declaration import declaration_of
from tests.providers.account import Account
from tests.providers.conformance import Conformance

GUIDE = Path(__file__).parents[2] / "ops" / "guides" / "a-new-provider.md"


def blocks() -> dict[str, str]:
    """What stands in the guide's code blocks, by what each block is called."""
    return dict(re.findall(r"^```python (\S+)\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def fake_shelf(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The guide's files written where it says, below a folder that both packages are told to look into."""
    root = tmp_path_factory.mktemp("guide")
    for name, text in blocks().items():
        if name.endswith(".py"):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (root / "kbsync/providers/shelf/__init__.py").touch()
    kbsync.providers.__path__.append(str(root / "kbsync/providers"))
    tests.providers.__path__.append(str(root / "tests/providers"))
    invalidate_caches()
    yield import_module("tests.providers.fake_shelf")
    kbsync.providers.__path__.pop()
    tests.providers.__path__.pop()


@pytest.fixture
def shelf_is_known(fake_shelf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line of the registry."""
    line: dict[str, Callable[..., Any]] = eval("{" + blocks()["registry"] + "}", {"over_http": registry.over_http})
    monkeypatch.setattr(registry, "FACTORIES", {**registry.FACTORIES, **line})
    monkeypatch.setattr(declaration, "FACTORIES", {**registry.FACTORIES, **line})


@pytest.mark.spec("LS-18")
@pytest.mark.usefixtures("shelf_is_known")
class TestTheGuide(Conformance):
    @pytest.fixture
    async def account(self, fake_shelf: Any) -> AsyncIterator[Account]:
        async with fake_shelf.FakeShelf().served() as fake:
            yield fake_shelf.ShelfAccount(fake)


@pytest.mark.spec("LS-18", "OP-03")
@pytest.mark.usefixtures("shelf_is_known")
def test_the_command_line_learns_of_it_from_the_registry_s_line() -> None:
    shelf = declaration_of("shelf")
    assert shelf.read([("base_url", "https://acme.shelf.test")]) == {"base_url": "https://acme.shelf.test"}
    assert shelf.secret_names == ["token"]


def test_the_guides_last_block_is_what_ran_here() -> None:
    assert "class TestShelf(Conformance)" in blocks()["test"]
    assert len([name for name in blocks() if name.startswith("kbsync/")]) == 4
