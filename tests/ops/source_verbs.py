"""`kbsync source` as a person types it, against a fake account and the test's own servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography.fernet import Fernet
from typer.testing import CliRunner

from kbsync.domain.errors import KbsyncError
from kbsync.settings import Settings
from ops.cli.app import app


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    error: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.out)


@dataclass(frozen=True)
class Verbs:
    """`kbsync ...` with this environment. Nobody is at a terminal."""

    key: str

    async def __call__(self, *words: str, typed: str = "") -> Said:
        result = await asyncio.to_thread(lambda: CliRunner().invoke(app, list(words), input=typed))
        if isinstance(result.exception, KbsyncError):  # `main` prints it
            return Said(1, result.stdout, str(result.exception))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout, result.stderr)


def verbs_of(settings: Settings, setenv: Callable[[str, str], None]) -> Verbs:
    key = Fernet.generate_key().decode()
    setenv("KBSYNC_DATABASE_URL", settings.database_url or "")
    setenv("KBSYNC_REDIS_URL", settings.redis_url or "")
    setenv("KBSYNC_FETCH_ALLOW_ADDRESSES", '["127.0.0.1"]')
    setenv("KBSYNC_CREDENTIALS_KEYS", key)
    setenv("KBSYNC_PROFILE", "embedded")
    return Verbs(key)


@pytest.fixture
def kbsync(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Verbs:
    return verbs_of(settings, monkeypatch.setenv)
