"""A queue's listing that says, before a bulk action acts on jobs, which ones (QU-19).

`QueueOperator.act_on_all` reads its jobs from here. What it is about to act on was noted durably by then, so that whoever
takes the action over knows what a dead process may have done already, and where it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kbsync.domain.requests import unit_request_adapter
from kbsync.domain.states import JobState
from kbsync.queue.listing import Listing
from kbsync.queue.operators import BATCH, Action
from kbsync.queue.records import JobRecord
from kbsync.queue.views import JobFilter, JobView

# (the jobs that come next, where to go on when they are done)
Note = Callable[[Sequence[JobView], str | None], Awaitable[None]]
# Of a job that is not to be acted on: why.
Refuse = Callable[[str, str], None]

UNKNOWN_KIND = "its kind is unknown to this version; it would fail again at once"


def known_kinds() -> frozenset[str]:
    """The kinds of work that this version can run."""
    return frozenset(unit_request_adapter.json_schema()["discriminator"]["mapping"])


@dataclass(frozen=True)
class WatchedListing(Listing):
    """Yields what a listing yields, in the batches that the operator acts in, each noted before it is handed out.

    `where` is the operator's own filter. `cursor`: ended jobs from there on. `goes_on`: an earlier holder began."""

    note: Note = field(kw_only=True)
    refuse: Refuse = field(kw_only=True)
    where: JobFilter = field(kw_only=True)
    action: Action = field(kw_only=True)
    kinds: frozenset[str] = field(kw_only=True, default_factory=known_kinds)
    cursor: str | None = field(kw_only=True, default=None)
    goes_on: bool = field(kw_only=True, default=False)

    async def ended(
        self, state: JobState, *, before: str | None = None, chunk: int = 200
    ) -> AsyncIterator[tuple[str, JobView, JobRecord | None]]:
        batch: list[tuple[str, JobView, JobRecord | None]] = []
        refused: list[tuple[str, str]] = []
        at = before or self.cursor
        async for index_id, view, record in super().ended(state, before=at, chunk=BATCH):
            if not self.where.matches(view):
                continue
            if self.action is Action.RETRY and record is not None and record.kind not in self.kinds:
                refused.append((view.job_id, UNKNOWN_KIND))
                continue
            batch.append((index_id, view, record))
            if len(batch) == BATCH:
                await self.note([view for _, view, _ in batch], at)
                for one in batch:
                    yield one
                at = self._settled(index_id, refused)
                batch, refused = [], []
        if batch:
            await self.note([view for _, view, _ in batch], at)
            for one in batch:
                yield one
        self._settled("", refused)

    def _settled(self, at: str, refused: list[tuple[str, str]]) -> str:
        """A batch was acted on, so its stretch is counted, and what was refused in it."""
        for job_id, why in refused:
            self.refuse(job_id, why)
        return at

    async def scan_live(self, state: JobState) -> AsyncIterator[list[tuple[JobView, float]]]:
        seen: set[str] = set()
        async for chunk in super().scan_live(state):
            if state is JobState.ACTIVE:  # they stay where they are, so a scan may meet them twice
                asked = await self._asked_already([view for view, _ in chunk])
                chunk = [pair for pair in chunk if pair[0].job_id not in seen | asked]
                seen.update(view.job_id for view, _ in chunk)
            matched = [view for view, _ in chunk if self.where.matches(view)]
            if matched:
                await self.note(matched, None)
            yield chunk

    async def _asked_already(self, views: list[JobView]) -> set[str]:
        """Active jobs that the earlier holder has asked to stop."""
        if not self.goes_on or not views:
            return set()
        pipe = self.redis.pipeline(transaction=False)
        pipe.hmget(self.keys.stop, [view.job_id for view in views])
        (stops,) = await pipe.execute()
        return {view.job_id for view, stop in zip(views, stops, strict=True) if stop is not None}
