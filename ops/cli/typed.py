"""What a person gives a source verb: settings as NAME=VALUE, credentials from a file, and answers typed at a terminal."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ops.source_setup import Ask


def pairs_of(config: list[str]) -> list[tuple[str, str]]:
    return [_pair(one) for one in config]


def _pair(text: str) -> tuple[str, str]:
    from kbsync.domain.errors import SettingsError

    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise SettingsError(f"write --config NAME=VALUE, not {text[:60]!r}")
    return name.strip(), value


def given_credentials(credentials_file: str, secret_file: list[str]) -> dict[str, str]:
    from kbsync.domain.errors import SettingsError
    from ops.source_setup import read_secrets, secrets_in

    found: dict[str, str] = {}
    if credentials_file:
        try:
            text = (
                sys.stdin.read() if credentials_file == "-" else Path(credentials_file).expanduser().read_text("utf-8")
            )
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SettingsError(f"{credentials_file} can't be read: {why}") from None
        found = read_secrets(text)
    return {**found, **secrets_in(secret_file)}


def asker() -> Ask | None:
    """None: nobody is there to be asked."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None

    def ask(question: str, hidden: bool) -> str:
        if hidden:
            return _unseen(question)
        answer: str = typer.prompt(question)
        return answer

    return ask


def _unseen(question: str) -> str:
    """Stops the echo, then asks: typer's own hidden question stands there first, and what is pasted at once is shown."""
    answer = ""
    while not answer:
        answer = getpass.getpass(f"{question}: ")
    return answer
