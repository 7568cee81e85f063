"""The enqueue script's arguments (lua/enqueue.lua): requests in groups that one script call takes (QU-04)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbsync.queue.encoding import PRIORITY_NUMBER, tenant_key
from kbsync.queue.jobs import JobRequest
from kbsync.queue.scripts import Argument

MAX_GROUP = 250
MAX_GROUP_BYTES = 1024 * 1024
SPLIT_GROUP = 100  # of a batch over 250: a script of 100 stays under 2 ms

_MODES = {(True, False): "-", (True, True): "r", (False, False): "k", (False, True): "b"}


def enqueue_arguments(requests: Sequence[JobRequest], encoded: Sequence[bytes]) -> Iterator[list[Argument]]:
    """The arguments of each script call that takes the requests, in order: all of them in one, up to 250 and 1 MiB."""
    size = sum(map(len, encoded))
    most = MAX_GROUP if len(encoded) <= MAX_GROUP and size <= MAX_GROUP_BYTES else SPLIT_GROUP
    group = _Group()
    for request, payload in zip(requests, encoded, strict=True):
        if group.count >= most or (group.count and group.size + len(payload) > MAX_GROUP_BYTES):
            yield group.arguments
            group = _Group()
        group.add(request, payload)
    yield group.arguments


class _Group:
    """Neighbours with the same options share one head: options and their number."""

    def __init__(self) -> None:
        self.arguments: list[Argument] = []
        self.count = 0
        self.size = 0
        self._like: JobRequest | None = None
        self._count_at = 0

    def add(self, request: JobRequest, payload: bytes) -> None:
        like = self._like
        if like is None or not (
            request.tenant == like.tenant
            and request.priority is like.priority
            and request.delay_ms == like.delay_ms
            and request.rerun_if_active is like.rerun_if_active
            and request.replace_finished is like.replace_finished
        ):
            self._like = request
            self._count_at = len(self.arguments) + 1
            self.arguments += (_options(request), 0)
        self.arguments[self._count_at] += 1  # type: ignore[operator]
        self.arguments += (request.job_id, payload)
        self.count += 1
        self.size += len(payload)


def _options(request: JobRequest) -> str:
    mode = _MODES[request.replace_finished, request.rerun_if_active]
    return f"{PRIORITY_NUMBER[request.priority]}|{request.delay_ms}|{mode}|{tenant_key(request.tenant)}"
