"""The headline case: 158 documents of one data source at 4 a window, windows scaled 1:100 (RL-03, RL-04)."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from kbsync.domain.ids import QueueName
from kbsync.domain.requests import SyncSource
from kbsync.domain.states import JobState
from kbsync.providers.contract import Content, DocumentRef, ListedDocument, Provider, SourceSetup
from kbsync.settings import Settings
from tests.acceptance.deployment import deployed, until
from tests.sync.toy import ToyListing

DOCUMENTS, LIMIT, WINDOW_S = 158, 4, 0.6


@pytest.mark.spec("RL-03", "RL-04", "RL-06")
async def test_158_documents_at_4_a_window_end_as_158_completed_jobs_and_158_attempts(settings: Settings) -> None:
    fetched: list[tuple[float, str]] = []

    async def note(ref: DocumentRef) -> None:
        fetched.append((time.time(), ref.external_id))

    ids = [f"doc-{number:03}" for number in range(DOCUMENTS)]
    provider = ToyListing(
        parts=[ListedDocument(one, title=one) for one in ids],
        contents={one: Content(f"# {one}\n\nText of {one}.", title=one) for one in ids},
        on_fetch=note,
    )

    def build(source_type: str, setup: SourceSetup) -> Provider:
        return provider

    async with deployed(settings, build_provider=build, workers=2) as fleet:
        organization = await fleet.organization()
        limits = {"document_sync": {"count": LIMIT, "window_s": WINDOW_S}}
        source = await fleet.source(organization, "notion", {}, limits)
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))

        async def all_synced() -> bool:
            count = "select count(*) from knowledge_base_documents where last_synced_at is not null"
            return await fleet.fetchval(count) == DOCUMENTS

        await until(all_synced, "158 documents synced")
        queue = fleet.runtime.fleet.queue(QueueName.SYNC)

        async def nothing_left() -> bool:
            counts = await queue.counts()
            return counts.waiting + counts.delayed + counts.active == 0

        await until(nothing_left, "an empty queue")
        counts = await queue.counts()
        assert (counts.completed, counts.failed) == (DOCUMENTS + 1, 0)
        page = await queue.page(JobState.COMPLETED, limit=500)
        documents = [job for job in page.jobs if job.kind == "sync_document"]
        assert len(documents) == DOCUMENTS
        assert {job.attempts for job in documents} <= {0, 1}
    assert sorted(one for _, one in fetched) == ids
    assert_never_above_the_limit([at for at, _ in sorted(fetched)])


def assert_never_above_the_limit(log: list[float]) -> None:
    """The provider's own log against the fixed windows. A request arrives a moment after its slot was taken, so one that
    comes soon after a boundary may spend a slot of the window before; it never spends one of a window to come."""
    used: Counter[int] = Counter()
    for at in log:
        window = int(at / WINDOW_S)
        own = window - 1 if used[window - 1] < LIMIT and at - window * WINDOW_S < WINDOW_S / 2 else window
        used[own] += 1
    assert max(used.values()) <= LIMIT


def test_that_check_bites() -> None:
    start = 1_000 * WINDOW_S
    assert_never_above_the_limit([start + 0.1 * WINDOW_S] * 8)
    for too_many in ([start + 0.1 * WINDOW_S] * 9, [start + 0.8 * WINDOW_S] * 5):
        with pytest.raises(AssertionError):
            assert_never_above_the_limit(too_many)
