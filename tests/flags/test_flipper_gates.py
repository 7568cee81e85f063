"""One flag's rows as Ruby Flipper would judge them."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Iterator

import pytest

from kbsync.flags import flipper_gates
from kbsync.flags.flipper_gates import FlipperGates, actor_of
from kbsync.flags.ruby_values import falls_within, to_number

FLAG = "pause_api2_knowledge_base_sync"


@pytest.fixture(autouse=True)
def _nothing_said_yet() -> Iterator[None]:
    flipper_gates._said.clear()
    yield
    flipper_gates._said.clear()


def gates(*rows: tuple[str, str | None]) -> FlipperGates:
    return FlipperGates.from_rows(FLAG, rows)


@pytest.mark.spec("KS-04")
@pytest.mark.parametrize(
    ("rows", "everybody", "seven", "eight"),
    [
        ([], False, False, False),
        ([("boolean", "true")], True, True, True),
        ([("boolean", "1")], True, True, True),
        ([("boolean", "false")], False, False, False),
        ([("boolean", "t")], False, False, False),
        ([("boolean", None)], False, False, False),
        ([("boolean", "false"), ("boolean", "true")], False, False, False),
        ([("actors", "Organization;7")], False, True, False),
        ([("actors", "Organization;7"), ("actors", "Organization;8")], False, True, True),
        ([("actors", "organization;7"), ("actors", "User;7"), ("actors", "7")], False, False, False),
        ([("percentage_of_actors", "100")], False, True, True),
        ([("percentage_of_actors", "0")], False, False, False),
        ([("percentage_of_actors", "")], False, False, False),
        ([("percentage_of_actors", "-5")], False, False, False),
        ([("percentage_of_time", "100")], True, True, True),
        ([("percentage_of_time", "0")], False, False, False),
        ([("groups", "admins")], False, False, False),
        ([("a gate of tomorrow", "true")], False, False, False),
    ],
)
def test_gates(rows: list[tuple[str, str | None]], everybody: bool, seven: bool, eight: bool) -> None:
    flag = gates(*rows)
    assert (flag.is_enabled(), flag.is_enabled(7), flag.is_enabled(8)) == (everybody, seven, eight)


def equal(left: object, right: object) -> dict[str, object]:
    return {"Equal": [left, right]}


ME = equal({"Property": ["flipper_id"]}, "Organization;7")
EXPRESSIONS = [
    (True, True, True),
    (False, False, False),
    (ME, False, True),
    ({"Any": [ME, False]}, False, True),
    ({"All": [ME, {"Equal": [{"Property": ["type"]}, "Organization"]}]}, False, True),
    ({"All": []}, True, True),
    ({"Any": []}, False, False),
    ({"NotEqual": [{"Property": ["id"]}, 7]}, True, False),
    ({"GreaterThan": [{"Property": "id"}, 6]}, False, True),
    ({"GreaterThanOrEqualTo": [7, {"Property": ["id"]}]}, False, True),
    ({"LessThan": [{"Property": ["id"]}, 7.5]}, False, True),
    ({"LessThanOrEqualTo": ["b", "a"]}, False, False),
    ({"GreaterThan": ["25", 21]}, False, False),
    ({"GreaterThan": [True, 0]}, False, False),
    (equal(True, 1), False, False),
    (equal(1, 1.0), True, True),
    (equal("1", 1), False, False),
    ({"Boolean": ["1"]}, True, True),
    ({"Boolean": ["yes"]}, False, False),
    ({"Boolean": [1.0]}, False, False),
    (equal({"Number": ["12 monkeys"]}, 12), True, True),
    (equal({"Number": ["1.5.2"]}, 1.5), True, True),
    (equal({"String": [True]}, "true"), True, True),
    (equal({"String": [1.0]}, "1.0"), True, True),
    (equal({"Percentage": [150]}, 100), True, True),
    (equal({"String": [{"Percentage": [-2]}]}, "0"), True, True),
    (equal({"String": [{"Percentage": [2]}]}, "2.0"), True, True),
    ({"PercentageOfActors": ["x", 100]}, True, True),
    ({"PercentageOfActors": ["x", 0]}, False, False),
    ({"LessThan": [{"Random": [10]}, 10]}, True, True),
    ({"LessThan": [{"Time": ["2020-01-01T00:00:00Z"]}, {"Now": []}]}, True, True),
    ({"LessThan": [{"Time": [4102444800]}, {"Now": []}]}, False, False),
    (equal({"Time": ["2020-01-01 00:00:00 UTC"]}, {"Time": [1577836800]}), True, True),
    (equal({"String": [{"Time": ["2020-01-01T02:00:00+02:00"]}]}, "2020-01-01 00:00:00 UTC"), True, True),
    ({"Number": [0]}, True, True),  # 0 is true in Ruby
    ({"String": [""]}, True, True),
]


@pytest.mark.spec("KS-04")
@pytest.mark.parametrize(("expression", "everybody", "seven"), EXPRESSIONS)
def test_expressions(expression: object, everybody: bool, seven: bool, caplog: pytest.LogCaptureFixture) -> None:
    flag = gates(("expression", json.dumps(expression)))
    assert (flag.is_enabled(), flag.is_enabled(7)) == (everybody, seven)
    assert not caplog.records


@pytest.mark.spec("KS-04")
@pytest.mark.parametrize(
    "expression",
    [
        json.dumps({"Any": [True, equal({"Property": ["plan"]}, "basic")]}),
        json.dumps({"FeatureEnabled": ["search"]}),
        json.dumps({"System": ["rm"]}),
        json.dumps({"Equal": [1]}),
        json.dumps({"All": [None]}),
        json.dumps({"All": {"Equal": [1, 1]}}),
        json.dumps({"Time": ["next tuesday"]}),
        json.dumps({"Time": [1e300]}),
        json.dumps([True]),
        "{not json",
        '{"All":[' * 200 + "true" + "]}" * 200,
        "[" * 100_000,
    ],
)
def test_what_only_the_rails_app_can_know_counts_as_off_and_is_said_once(
    expression: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            flag = gates(("expression", expression))
            assert not flag.is_enabled(7)
    assert len(caplog.records) == 1
    assert FLAG in caplog.text


@pytest.mark.spec("KS-04")
def test_a_group_is_said_once_and_opens_nothing(caplog: pytest.LogCaptureFixture) -> None:
    flag = gates(("groups", "admins"), ("actors", "Organization;7"))
    assert [flag.is_enabled(7), flag.is_enabled(8), flag.is_enabled(8)] == [True, False, False]
    assert len(caplog.records) == 1


def test_half_of_the_time_is_neither_always_nor_never() -> None:
    flag = gates(("percentage_of_time", "50"))
    assert {flag.is_enabled(7) for _ in range(200)} == {True, False}


def test_what_people_see() -> None:
    flag = gates(
        ("actors", "Organization;7"), ("actors", "User;3"), ("actors", "Organization;x"), ("groups", "admins"),
        ("percentage_of_actors", "12.5"), ("percentage_of_time", "3"), ("expression", "true"),
    )  # fmt: skip
    assert flag.organizations == {7}
    assert not flag.on_for_all
    assert flag.other_gates == (
        "actor Organization;x", "actor User;3", "group admins (not evaluated)", "12.5 % of organizations",
        "3 % of the time", "an expression",
    )  # fmt: skip


def _ruby(program: str, *lines: str) -> list[str]:
    run = subprocess.run(
        ["ruby", "-rzlib", "-e", program],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return run.stdout.splitlines()


@pytest.mark.needs("ruby")
@pytest.mark.spec("KS-04")
@pytest.mark.parametrize("percentage", ["0.001", "12.5", "25", "33.333", "99.999"])
def test_percentages_choose_the_very_organizations_that_ruby_chooses(percentage: str) -> None:
    organizations = [*range(1, 3_000), 2**63 - 1]
    number = f"{percentage}.to_f" if "." in percentage else percentage
    said = _ruby(
        f"while l = gets; puts(Zlib.crc32(l.chomp) % 100_000 < {number} * 1_000); end",
        *(f"{FLAG}{actor_of(organization)}" for organization in organizations),
    )
    flag = gates(("percentage_of_actors", percentage))
    assert [str(flag.is_enabled(each)).lower() for each in organizations] == said


@pytest.mark.needs("ruby")
@pytest.mark.spec("KS-04")
def test_texts_beyond_ascii_fall_into_ruby_s_buckets() -> None:
    texts = ["naïve", "日本", "🦔", "", "a b"]
    said = _ruby("while l = gets; puts Zlib.crc32(l.chomp) % 100_000 < 50_000; end", *texts)
    assert [str(falls_within(text, 50)).lower() for text in texts] == said


@pytest.mark.needs("ruby")
def test_numbers_are_read_as_ruby_reads_them() -> None:
    texts = [
        "25",
        " 7",
        "25abc",
        "abc",
        "+3",
        "-4",
        "1_000",
        "1__0",
        "12.5",
        ".5",
        "5.",
        "1.5e1",
        "1.5e",
        "a.b",
        "1.2.3",
        "_1",
    ]
    program = "while l = gets; v = l.chomp; puts((v.include?('.') ? v.to_f : v.to_i).inspect); end"
    assert [repr(to_number(text)) for text in texts] == _ruby(program, *texts)
