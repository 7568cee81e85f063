"""A request as Redis holds it: the JSON array `[priority,"tenant","kind",enqueued ms,payload]` (QU-21, QU-22).

Lua reads priority and tenant from its first bytes. `payload` is the request's object. A stock arq producer's call with
other arguments is `[priority,"tenant","kind",enqueued ms,[args],{kwargs}]`. Pickled bytes are refused unread.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from kbsync.domain.errors import PayloadRefused, PayloadTooLarge
from kbsync.domain.requests import Priority
from kbsync.queue import strictjson
from kbsync.queue.jobs import MAX_PAYLOAD_BYTES, JobRequest

PRIORITY_NUMBER = {Priority.URGENT: 0, Priority.NORMAL: 1, Priority.BACKGROUND: 2}
PRIORITY_OF = {number: priority for priority, number in PRIORITY_NUMBER.items()}
DEFAULT_TENANT = "default"  # of jobs by stock arq producers

_PLAIN_TENANT = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_KIND = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_JOB_ID = re.compile(r"[^\x00-\x20\x7f]{1,512}")


class StoredRequest(NamedTuple):
    """A named tuple, as one is made for each job that runs: a third of a frozen dataclass's cost."""

    number: int  # of the priority
    tenant: str
    kind: str
    enqueued_ms: int
    body: dict[str, Any] | list[Any]  # the request's object, or a stock producer's positional arguments
    kwargs: Mapping[str, Any]

    @property
    def priority(self) -> Priority:
        return PRIORITY_OF[self.number]

    @property
    def args(self) -> tuple[Any, ...]:
        return (self.body,) if isinstance(self.body, dict) else tuple(self.body)

    @property
    def payload(self) -> Mapping[str, object]:
        """The request's object. Raises PayloadRefused when a stock producer passed something else."""
        body = self.body
        if isinstance(body, dict):
            return body
        if len(body) == 1 and not self.kwargs and isinstance(body[0], dict):
            return body[0]
        if not body:
            return dict(self.kwargs)
        raise PayloadRefused("the job's arguments are not one JSON object")


_NO_KWARGS: Mapping[str, Any] = MappingProxyType({})


@lru_cache(maxsize=10_000)
def tenant_key(tenant: str) -> str:
    """`tenant` as Lua can read it: unusual spellings are hashed, the same one always to the same key."""
    if _PLAIN_TENANT.fullmatch(tenant):
        return tenant
    return "h-" + hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def encode_request(request: JobRequest, enqueued_ms: int) -> bytes:
    """Raises PayloadTooLarge, or PayloadRefused for what is not JSON or has an unusable id or kind."""
    job_id, payload = request.job_id, request.payload
    if not _JOB_ID.fullmatch(job_id):
        raise PayloadRefused(f"job id {job_id[:80]!r} is empty, longer than 512 or has blanks or control characters")
    head = _head(PRIORITY_NUMBER[request.priority], request.tenant, request.kind)
    if request.delay_ms < 0:
        raise PayloadRefused(f"job {job_id}: a delay of {request.delay_ms} ms")
    try:
        body = strictjson.dumps(payload if type(payload) is dict else dict(payload))
        if not job_id.isascii():
            job_id.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadRefused(f"the payload of job {job_id[:80]!r} is not JSON: {error}") from error
    encoded = b"%b%d,%b]" % (head, enqueued_ms, body)
    if len(encoded) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge(f"job {job_id}: {len(encoded)} bytes, at most {MAX_PAYLOAD_BYTES} are taken")
    return encoded


@lru_cache(maxsize=10_000)
def _head(priority: int, tenant: str, kind: str) -> bytes:
    if not _KIND.fullmatch(kind):
        raise PayloadRefused(f"kind {kind[:80]!r} is not 1 to 64 of A-Z a-z 0-9 _ . : -")
    return f'[{priority},"{tenant_key(tenant)}","{kind}",'.encode()


def decode_request(data: bytes) -> StoredRequest:
    """Reads our array, or the plain dict that arq makes with a plain JSON serializer. Raises PayloadRefused."""
    value = _json(data)
    if isinstance(value, dict):
        return _from_dict(value)
    if not isinstance(value, list) or len(value) < 5:
        raise PayloadRefused("the job's bytes are not a request: neither kbsync's array nor arq's object")
    number, tenant, kind, enqueued, body = value[:5]
    known = type(number) is int and number in PRIORITY_OF
    if not (known and type(tenant) is str and type(kind) is str and type(enqueued) is int):
        raise PayloadRefused("the job's bytes are not a request: its head is not [priority, tenant, kind, time]")
    if type(body) is dict:
        return StoredRequest(number, tenant, kind, enqueued, body, _NO_KWARGS)
    kwargs = value[5] if len(value) > 5 else _NO_KWARGS
    if not isinstance(body, list) or not isinstance(kwargs, Mapping):
        raise PayloadRefused("the job's bytes are not a request: its arguments are no list and object")
    return StoredRequest(number, tenant, kind, enqueued, body, kwargs)


def _json(data: bytes) -> object:
    if not data:
        raise PayloadRefused("the job's payload is missing in Redis")
    if data[:1] == b"\x80":
        raise PayloadRefused(
            "the job's bytes are pickled: refused unread; the producer must use kbsync's JSON serializer"
        )
    try:
        return strictjson.loads(data)
    except (ValueError, RecursionError) as error:
        raise PayloadRefused(f"the job's bytes are not JSON: {error}") from error


def _from_dict(value: dict[Any, Any]) -> StoredRequest:
    kind, args, kwargs, enqueued = value.get("f"), value.get("a", []), value.get("k", {}), value.get("et", 0)
    if not (isinstance(kind, str) and isinstance(args, list) and isinstance(kwargs, dict) and type(enqueued) is int):
        raise PayloadRefused("the job's bytes are not a request: an object without arq's f, a, k and et")
    return StoredRequest(PRIORITY_NUMBER[Priority.NORMAL], DEFAULT_TENANT, kind, enqueued, args, kwargs)
