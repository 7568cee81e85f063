"""`kbsync source add` at a real terminal: it asks for what is missing, and a secret is not echoed (OP-03, LS-19)."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbsync.settings import Settings
from tests.ops.source_verbs import verbs_of
from tests.providers.fake_scribe import KEY, FakeScribe, ScribeAccount

PATIENCE_S = 60.0


def typed_at_a_terminal(words: list[str], answers: dict[str, str], env: dict[str, str]) -> tuple[int, str]:
    """Runs a command on a pseudo-terminal; whenever one of the questions stands there, its answer is typed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ops.cli", *words]
    root = Path(__file__).parents[2]
    # A session of its own: the terminal this test may itself be run at is not the one that is asked.
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=root, start_new_session=True
    )
    os.close(theirs)
    said, waiting = "", dict(answers)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1.0)[0]:
            continue
        try:
            data = os.read(ours, 4096)
        except OSError:
            break
        if not data:
            break
        said += data.decode("utf-8", "replace")
        for question in [one for one in waiting if one in said]:
            os.write(ours, f"{waiting.pop(question)}\n".encode())
    else:
        process.kill()
    os.close(ours)
    return process.wait(), said


@pytest.mark.spec("OP-03", "LS-19")
async def test_a_person_is_asked_and_the_secret_stays_unseen(settings: Settings, tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "TERM": "dumb"}
    verbs_of(settings, env.__setitem__)
    async with FakeScribe().served() as fake:
        ScribeAccount(fake).fill(4)
        words = ["source", "add", "scribe", "--config", f"base_url={fake.url}", "--config", "types=scribe"]
        words += ["--new-organization", "Acme"]
        answers = {"Sign in with": "1", "api_key (": KEY}
        code, said = await asyncio.to_thread(typed_at_a_terminal, words, answers, env)
    assert code == 0, said
    assert "source 1 of organization 1, sync requested" in said
    assert "sees: Team 1" in said
    assert KEY not in said
