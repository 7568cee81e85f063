"""Runbooks are read in a bad hour: each command in them exists, with its options, and steps stand in their order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from ops.cli.app import app

RUNBOOKS = Path(__file__).parents[2] / "ops" / "runbooks"
NAMES = ("cutover-library", "redis-loss", "redrive-after-pause", "rollback-library")
INDENTED = re.compile(r"^ {4,}(kbsync .+)$", re.MULTILINE)
QUOTED = re.compile(r"`(kbsync [^`\n]*)`")


def commands(text: str) -> list[str]:
    return INDENTED.findall(text) + QUOTED.findall(text)


def fault(command: str) -> str | None:
    """What the command line does not know of a command, or None."""
    words = shlex.split(command)[1:]
    known = typer.main.get_command(app)
    while isinstance(known, TyperGroup) and words:
        name = words.pop(0)
        if name not in known.commands:
            return f"no verb {name!r}"
        known = known.commands[name]
    if isinstance(known, TyperGroup):
        return "a group of verbs, no verb"
    options = {option for parameter in known.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in options]
    return f"no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize("name", NAMES)
def test_each_command_of_a_runbook_exists(name: str) -> None:
    found = commands((RUNBOOKS / f"{name}.md").read_text(encoding="utf-8"))
    assert len(found) >= 4
    assert {command: fault(command) for command in found if fault(command)} == {}


def test_that_guard_bites() -> None:
    assert fault("kbsync restore everything") == "no verb 'restore'"
    assert fault("kbsync pause --because x") == "no option --because"
    assert fault("kbsync observe") == "a group of verbs, no verb"
    assert fault("kbsync resume --reason 'x y' --redrive") is None
    assert commands("text\n\n    kbsync one --two\n\nand `kbsync three`.") == ["kbsync one --two", "kbsync three"]


def test_a_rollback_is_flag_on_then_cron_on_and_back_in_reverse() -> None:
    text = (RUNBOOKS / "rollback-library.md").read_text(encoding="utf-8")
    forth, back = text.split("## Come back")
    assert forth.index("1. **Flag on.**") < forth.index("kbsync pause") < forth.index("2. **Then the legacy cron on.**")
    assert (
        back.index("1. **The legacy cron off.**")
        < back.index("2. **Then the flag off.**")
        < back.index("kbsync resume")
    )


def test_the_last_step_of_a_cutover_keeps_the_kill_switch() -> None:
    text = (RUNBOOKS / "cutover-library.md").read_text(encoding="utf-8")
    gates = re.findall(r"^## Gate (\d)", text, re.MULTILINE)
    assert gates == ["1", "2", "3", "4"]
    last = text.split("## Gate 4")[1]
    assert "The kill switch of kbsync itself stays" in last
    assert len(re.findall(r"`\w+Job`", last)) == 6
