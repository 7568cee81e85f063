"""`/queues`: how every queue stands (OP-05)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbsync.dashboard.ask import Access, Ask
from kbsync.dashboard.page import Page
from kbsync.dashboard.standing import Standing, limits_text, standing_of
from kbsync.dashboard.words import count
from kbsync.domain.ids import QueueName


async def _read(ask: Ask) -> Mapping[str, Any]:
    standings = [await standing_of(ask.services.fleet.queue(name), ask.services.database) for name in QueueName]
    return {"standings": standings, "limits_text": limits_text, "verdict": _verdict(standings)}


def _verdict(standings: list[Standing]) -> str:
    unserved = [one.name for one in standings if one.needs_workers]
    paused = [one.name for one in standings if one.counts.paused]
    failed = sum(one.counts.failed for one in standings)
    parts = []
    if unserved:
        parts.append(f"No worker serves {' and '.join(unserved)}, and jobs are there.")
    if paused:
        parts.append(f"{' and '.join(paused)} {'is' if len(paused) == 1 else 'are'} paused.")
    if failed:
        parts.append(f"{count(failed, 'job')} failed for good.")
    return " ".join(parts) or "Nothing needs a person: every queue is served, none is paused, nothing failed for good."


PAGES = (Page("/queues", "queues.html", _read, Access.LOOK, live=("verdict", "queues")),)
