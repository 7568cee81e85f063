"""Every Redis key of a queue, in one place.

Q is the queue's name. arq's own keys (Q, arq:job:, arq:in-progress:, arq:result:) keep arq's meaning (QU-22).

    key                    type    what                                                         leaves or dies
    Q                      zset    waiting (score < 0: a virtual start time in a band per       claim, remove
                                   priority) and delayed (score >= 0: due ms, Redis clock)
    arq:job:<id>           string  the request; exists while waiting, delayed or active         the job's end; no TTL
    arq:in-progress:<id>   string  the lease token of the run                                   finish, reclaim; no TTL
    arq:result:<id>        string  the record of an ended job (kbsync.queue.records)            retention, replace
    Q:active               zset    id -> lease end ms                                           finish, reclaim
    Q:tags                 zset    flow (priority + tenant, and + NUL + "r" for what came       below the band's clock
                                   back) -> start of the flow's next job                        at each claim
    Q:vt                   hash    the clock v<band> and the newcomer counter e<band>           never (6 fields)
    Q:meta                 hash    id -> attempts,stalls,delays{json tail}, once not all zero   the job's end
    Q:again                hash    id -> the request of the rerun (the dirty bit, QU-03)        the run's end
    Q:progress             hash    id -> progress JSON (QU-24)                                  the run's end
    Q:stop                 hash    id -> token of the run that was asked to stop (QU-25)        the run's end
    Q:idx:<c s x f>        stream  kept ended jobs, oldest first: an entry for what ended in    count, age and bytes
                                   one step, its fields id -> bytes
    Q:bytes                hash    c s x f -> bytes kept, nc ns nx nf -> jobs kept, oc os ox of  never (12 fields)
                                   -> how much of the oldest entry is trimmed: entry id|fields
    Q:gone                 hash    <c s x f><entry id> -> how many of an entry's jobs are kept,  its entry
                                   once one of them was replaced or removed
    Q:cfg                  hash    paused, max_active, limit, window, bg (background credit)    never
    Q:lim:<window>         string  claims in this limiter window                                two windows
    Q:wake                 list    at most one token, for blocked idle workers                  BLPOP
    Q:events               stream  one entry a batch (QU-26)                                    MAXLEN ~ 1000
    Q:owed                 list    ends the runner did not see, owed to `abandoned` (QU-31)     taken
    Q:owing                zset    taken from Q:owed -> when it is offered again                acknowledged
    Q:rates                hash    "<minute>:<i o f d>" -> jobs that came in, ended, failed,    an hour
                                   were delayed in that minute
    Q:workers              zset    worker id -> last beat ms                                    read, beat
    Q:worker:<worker id>   string  the worker's health record (QU-28)                           expires

Job ids are unique across queues, as `arq:job:` is one name space. Score 0 is never used: arq reads it as "not found".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

JOB_PREFIX = "arq:job:"
TOKEN_PREFIX = "arq:in-progress:"
RESULT_PREFIX = "arq:result:"

BANDS = (-9e15, -6e15, -3e15)  # urgent, normal, background
TURN = 1000  # of one flow's start to its next


@dataclass(frozen=True)
class QueueKeys:
    queue: str

    @cached_property
    def all(self) -> tuple[str, ...]:
        """The KEYS of every script, in the order that lua/lib_keys.lua names them."""
        q = self.queue
        return (
            q, f"{q}:tags", f"{q}:vt", f"{q}:wake", f"{q}:events", f"{q}:meta", f"{q}:again", f"{q}:active",
            f"{q}:cfg", f"{q}:bytes", f"{q}:progress", f"{q}:stop", f"{q}:owed", f"{q}:idx:c", f"{q}:idx:s",
            f"{q}:idx:x", f"{q}:idx:f", f"{q}:lim:", f"{q}:owing", f"{q}:workers", f"{q}:rates",
            f"{q}:gone",
        )  # fmt: skip

    @property
    def wake(self) -> str:
        return f"{self.queue}:wake"

    @property
    def tags(self) -> str:
        return f"{self.queue}:tags"

    @property
    def active(self) -> str:
        return f"{self.queue}:active"

    @property
    def meta(self) -> str:
        return f"{self.queue}:meta"

    @property
    def again(self) -> str:
        return f"{self.queue}:again"

    @property
    def progress(self) -> str:
        return f"{self.queue}:progress"

    @property
    def stop(self) -> str:
        return f"{self.queue}:stop"

    @property
    def cfg(self) -> str:
        return f"{self.queue}:cfg"

    @property
    def bytes(self) -> str:
        return f"{self.queue}:bytes"

    @property
    def events(self) -> str:
        return f"{self.queue}:events"

    @property
    def owed(self) -> str:
        return f"{self.queue}:owed"

    @property
    def owing(self) -> str:
        return f"{self.queue}:owing"

    @property
    def workers(self) -> str:
        return f"{self.queue}:workers"

    def index(self, letter: str) -> str:
        return f"{self.queue}:idx:{letter}"

    def worker(self, worker_id: str) -> str:
        return f"{self.queue}:worker:{worker_id}"


def id_bytes(job_id: str) -> bytes:
    """A job id as Redis has it: ids that are no UTF-8 (no producer of ours makes them) come back as they went out."""
    return job_id.encode("utf-8", "surrogateescape")


def id_text(job_id: bytes) -> str:
    return job_id.decode("utf-8", "surrogateescape")


def job_key(job_id: str) -> str:
    return JOB_PREFIX + job_id


def token_key(job_id: str) -> str:
    return TOKEN_PREFIX + job_id


def result_key(job_id: str) -> str:
    return RESULT_PREFIX + job_id
