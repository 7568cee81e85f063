"""Which kinds a queue runs, and who is told of ends that no run saw."""

from __future__ import annotations

from collections.abc import Mapping

from kbsync.domain.ids import QueueName
from kbsync.queue.jobs import Abandoned, Handler
from workers.run_unit import UnitRunner

KINDS: Mapping[QueueName, tuple[str, ...]] = {
    QueueName.SYNC: ("scan", "sync_source", "sync_document", "start_crawl", "crawl_url"),
    QueueName.CHUNKS: ("document_chunks",),
}


def handlers_for(runner: UnitRunner, queue: QueueName) -> Mapping[str, Handler]:
    """The handler of each kind of a queue's jobs."""
    return dict.fromkeys(KINDS[queue], runner.run)


def abandoned_of(runner: UnitRunner) -> Abandoned:
    """What a worker calls for an end that no handler saw (QU-31)."""
    return runner.abandoned
