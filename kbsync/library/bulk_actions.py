"""Actions over everything in a queue that matches: asked for, held by who runs them, and what came of them (QU-19).

An unfinished action is nobody's once its hold ran out; the next holder goes on from `cursor`, and settles `in_hand` first:
the jobs that the last one was about to act on. Transactions: `fleet()`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)

HELD_S = 15.0


@dataclass(frozen=True)
class BulkAsk:
    """What is asked for. `after_ms` and `before_ms` bound when a job ended, or came in; `expected` is how many were
    counted before; `cursor` leaves out what ends from then on."""

    queue: str
    action: str
    state: str
    actor: str
    kind: str | None = None
    tenant: str | None = None
    error: str | None = None
    after_ms: int | None = None
    before_ms: int | None = None
    expected: int = 0
    cursor: str | None = None


@dataclass(frozen=True)
class Tally:
    """matched = done + all of `refused` (reason -> how many); `examples` are some (job id, reason)."""

    matched: int = 0
    done: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    examples: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class BulkAction:
    """An action as it stands. `held`: somebody runs it now."""

    id: int
    asked: BulkAsk
    asked_at: datetime
    tally: Tally
    held: bool
    finished_at: datetime | None
    fault: str | None
    in_hand: Sequence[bytes]


async def ask_for(connection: Connection, asked: BulkAsk) -> tuple[int, bool]:
    """(id, True), or the id of the action under way that does exactly this, and False."""
    asked_for = _what(asked)
    await connection.execute(_SQL["one_asks_at_a_time"])
    same: int | None = await connection.fetchval(_SQL["same_unfinished"], *asked_for)
    if same is not None:
        return same, False
    made: int = await connection.fetchval(
        _SQL["insert_action"], *asked_for, storable(asked.actor), asked.expected, asked.cursor
    )
    return made, True


async def take_next(connection: Connection, holder: str) -> BulkAction | None:
    """The oldest action that nobody runs, now held by `holder` for HELD_S."""
    row = await connection.fetchrow(_SQL["take_next"], holder, HELD_S)
    return _action(row, held=True) if row else None


async def hold_on(connection: Connection, action_id: int, holder: str) -> bool:
    """False when another one holds it, or it is finished."""
    return await connection.fetchval(_SQL["hold_on"], action_id, holder, HELD_S) is not None


async def let_go(connection: Connection, action_id: int, holder: str) -> None:
    await connection.execute(_SQL["let_go"], action_id, holder)


async def note_progress(
    connection: Connection, action_id: int, holder: str, tally: Tally, cursor: str | None, in_hand: Sequence[bytes]
) -> bool:
    """False when another one holds it: then nothing may be done any more."""
    noted = await connection.fetchval(_SQL["note_progress"], action_id, holder, *_counts(tally), cursor, list(in_hand))
    return noted is not None


async def finish(connection: Connection, action_id: int, holder: str, tally: Tally, fault: str | None = None) -> bool:
    """True when this call finished it."""
    fault = None if fault is None else storable(fault)[:2_000]
    return await connection.fetchval(_SQL["finish_action"], action_id, holder, *_counts(tally), fault) is not None


async def find(connection: Connection, queue: str, action_id: int) -> BulkAction | None:
    row = await connection.fetchrow(_SQL["action_by_id"], action_id, queue)
    return _action(row, held=bool(row["held"])) if row else None


async def latest(connection: Connection, queue: str, limit: int = 5) -> list[BulkAction]:
    """The newest first."""
    rows = await connection.fetch(_SQL["latest_of_queue"], queue, limit)
    return [_action(row, held=bool(row["held"])) for row in rows]


def _what(asked: BulkAsk) -> tuple[object, ...]:
    texts = [None if text is None else storable(text) for text in (asked.kind, asked.tenant, asked.error)]
    return (asked.queue, asked.action, asked.state, *texts, asked.after_ms, asked.before_ms)


def _counts(tally: Tally) -> tuple[object, ...]:
    examples = [[storable(job_id), reason] for job_id, reason in tally.examples]
    return (tally.matched, tally.done, json.dumps(dict(tally.refused)), json.dumps(examples))


def _action(row: asyncpg.Record, *, held: bool) -> BulkAction:
    asked = BulkAsk(
        **{name: row[name] for name in ("queue", "action", "state", "actor", "kind", "tenant", "error")},
        after_ms=row["after_ms"], before_ms=row["before_ms"], expected=row["expected"], cursor=row["cursor"],
    )  # fmt: skip
    examples = [(str(job_id), str(reason)) for job_id, reason in json.loads(row["examples"])]
    tally = Tally(row["matched"], row["done"], json.loads(row["refused"]), examples)
    return BulkAction(
        row["id"], asked, row["asked_at"], tally, held, row["finished_at"], row["fault"], row["in_hand"]
    )  # fmt: skip
