"""The states that ledgers and queues know, drawn, each set named once.

A job in a queue (kbsync.queue):

    enqueue -> WAITING --claim--> ACTIVE --> COMPLETED | SKIPPED | CANCELLED | FAILED
                 ^   ^              |  |         |
                 |   +- put back ---+  |         +-- enqueued again ("replaced") --> WAITING
                 |   +- lease ended, stalls + 1 (too often: FAILED)
                 +-- due -- DELAYED <--+ a delay (no attempt) or a failing attempt's backoff

A source (knowledge_base_sources.sync_status):

    pending -> syncing -> synced | failed;  synced | failed -> syncing (any later run)

A crawl (knowledge_base_crawl_tasks.status):

    pending -> running -> completed | failed;   urls_pending reaches 0 exactly once, and that write is the end

A crawl URL (kbsync.crawl_task_urls): claimed (finished_at null) -> finished (an outcome of `CrawlUrlOutcome`), once.
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    WAITING = "waiting"
    DELAYED = "delayed"
    ACTIVE = "active"
    COMPLETED = "completed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    FAILED = "failed"


ENDED_JOB_STATES = frozenset({JobState.COMPLETED, JobState.SKIPPED, JobState.CANCELLED, JobState.FAILED})


class CrawlStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class CrawlUrlOutcome(StrEnum):
    STORED = "stored"  # a document was made or changed
    UNCHANGED = "unchanged"
    GONE = "gone"  # 404, 410
    REFUSED = (
        "refused"  # another permanent 4xx, a type that is not text, noindex, out of scope after a redirect, robots
    )
    DUPLICATE = "duplicate"  # its canonical page or its text is another row's
    FAILED = "failed"  # the final attempt failed, or the job ended unseen


class UnitEnd(StrEnum):
    """How a requested unit ended (kbsync.unit_requests.ended_as)."""

    DONE = "done"
    RECORD_MISSING = "record_missing"
    SKIPPED = "skipped"
    FAILED = "failed"
    ABANDONED = "abandoned"
