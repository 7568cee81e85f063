"""Which jobs a page of a queue shows, as its address says it (QU-18)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kbsync.dashboard.acting import queue_path
from kbsync.dashboard.ask import Ask
from kbsync.dashboard.job_words import kind_words
from kbsync.dashboard.look import Wanted, is_cursor
from kbsync.dashboard.words import at_ms, moment_text
from kbsync.domain.states import JobState

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
# name -> (words, at most this old, at least this old)
AGES: dict[str, tuple[str, int | None, int | None]] = {
    "": ("Of any age", None, None),
    "1h": ("In the last hour", _HOUR_MS, None),
    "24h": ("In the last 24 h", _DAY_MS, None),
    "over1h": ("Over an hour ago", None, _HOUR_MS),
    "over24h": ("Over 24 h ago", None, _DAY_MS),
}


@dataclass(frozen=True)
class Shown:
    """What the address asks for. `at` is how many rows come before this page, as far as the address says."""

    queue: str
    state: JobState
    kind: str
    tenant: str
    error: str
    age: str
    cursor: str | None
    at: int
    where: Wanted

    @property
    def filters(self) -> int:
        return sum(bool(given) for given in (self.kind, self.tenant, self.error, self.age))

    def path(self, **changes: str | int | None) -> str:
        """This page's address with changes; its cursor is not kept."""
        given: dict[str, str | int | None] = {
            "state": self.state.value, "kind": self.kind, "tenant": self.tenant, "error": self.error, "age": self.age,
        }  # fmt: skip
        return queue_path(self.queue, **{**given, **changes})

    def bulk_path(self, do: str) -> str:
        """The page that counts what matches, before `do` is done to all of it."""
        return self.path(do=do).replace("?", "/bulk?", 1)


def shown_of(ask: Ask, queue: str, default: JobState) -> Shown:
    """What can't be understood is left out, as if it was not asked for."""
    state = JobState(text) if (text := ask.query("state", 20)) in set(JobState) else default
    age = text if (text := ask.query("age", 10)) in AGES else ""
    kind, tenant, error = ask.query("kind", 100), _tenant(ask.query("tenant", 100)), ask.query("error", 300)
    if state is not JobState.FAILED:
        error = ""  # only failed jobs have one
    cursor = ask.query("cursor", 40)
    at = ask.query("at", 9)
    return Shown(
        queue, state, kind, tenant, error, age,
        cursor=cursor if cursor and is_cursor(state, cursor) else None,
        at=int(at) if at.isascii() and at.isdigit() else 0,
        where=_wanted(kind, tenant, error, age, ask.now),
    )  # fmt: skip


def _tenant(text: str) -> str:
    """An organization's number means its jobs."""
    return f"org-{text}" if text.isascii() and text.isdigit() else text


def _wanted(kind: str, tenant: str, error: str, age: str, now: datetime) -> Wanted:
    _, at_most, at_least = AGES[age]
    now_ms = int(now.timestamp() * 1000)
    return Wanted(
        kind or None,
        tenant or None,
        error or None,
        None if at_most is None else now_ms - at_most,
        None if at_least is None else now_ms - at_least,
    )


def words_of(where: Wanted, now: datetime) -> str:
    """The filter as words behind `jobs`: ` of kind sync_document with “429” in their error`. May hold text from outside."""
    parts = [f"of kind “{kind_words(where.kind)}”"] if where.kind else []
    parts += [f"of {where.tenant}"] if where.tenant else []
    parts += [f"with “{where.error}” in their error"] if where.error else []
    parts += [f"from {moment_text(at_ms(where.after_ms), now)} on"] if where.after_ms else []
    parts += [f"from before {moment_text(at_ms(where.before_ms), now)}"] if where.before_ms else []
    return "".join(f" {part}" for part in parts)
