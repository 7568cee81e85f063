"""The producer's side of the enqueue API (KS-07): a 202 is a promise, anything else means the fallback runs.

    dispatch = KnowledgeBaseSyncDispatch(url, token, flags, fallback=enqueue_the_old_way)
    await dispatch.sync_source(organization_id=7, source_id=12)     # after the producer's own commit

The kill switch on: the fallback at once, and the API is not called. The flag's state unknown, the API slow, gone or of
another mind: a warning to Sentry and the fallback. A unit that runs twice is harmless, one that runs never is not. How often
that was, kbsync is told when it answers again (`fallback_reports.py`).
`rails/knowledge_base_sync_dispatch.rb` is the same thing for a Rails app; one suite tests both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Protocol

import aiohttp
import sentry_sdk
from yarl import URL

from kbsync.domain.errors import FlagStoreUnavailable
from kbsync.flags.kill_switch import PAUSE_FLAG
from producers.fallback_reports import FallbackReports, reason_of

log = logging.getLogger(__name__)

ENQUEUE_PATH = "/internal/knowledge_base_sync/enqueue"
ACCEPTED = 202

RequestBody = Mapping[str, object]


class DeliveryError(Exception):
    """The API did not accept a request. It may have got it all the same, which does no harm: ids are deterministic."""

    def __init__(
        self, message: str, request: RequestBody, status: int | None = None, *, reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.request = request
        self.status = status
        self.reason = reason or reason_of(status)


class Dispatched(StrEnum):
    ACCEPTED = "accepted"
    FELL_BACK = "fell_back"


class PauseFlag(Protocol):
    """The one question asked of a flag store; every `kbsync.flags` store answers it."""

    async def is_enabled(self, name: str, organization_id: int | None = None) -> bool: ...


def report_to_sentry(error: DeliveryError) -> None:
    """A warning, not an error: the fallback has the work. Does nothing where Sentry is not set up."""
    with sentry_sdk.new_scope() as scope:
        scope.set_level("warning")
        scope.set_tag("kbsync.request_type", str(error.request.get("type")))
        scope.set_tag("kbsync.organization_id", str(error.request.get("organization_id")))
        scope.capture_exception(error)


class KnowledgeBaseSyncDispatch:
    """One for each process; `close()` it at the end. `url` is the API's root, `timeout_s` covers the whole call.

    `fallback` gets the request that was not accepted and does its work another way; what it raises leaves the method."""

    def __init__(
        self,
        url: str,
        token: str,
        flags: PauseFlag,
        *,
        fallback: Callable[[RequestBody], Awaitable[None]],
        report: Callable[[DeliveryError], None] = report_to_sentry,
        timeout_s: float = 2.0,
    ) -> None:
        # The token is the credential; one in the URL would only end up in logs.
        self._endpoint = URL(url.rstrip("/") + ENQUEUE_PATH).with_user(None)
        self._token = token
        self._flags = flags
        self._fallback = fallback
        self._report = report
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None
        self._fallbacks = FallbackReports(URL(url).with_user(None), token)

    async def sync_source(self, *, organization_id: int, source_id: int) -> Dispatched:
        return await self._dispatch(type="sync_source", organization_id=organization_id, source_id=source_id)

    async def sync_document(self, *, organization_id: int, document_id: int) -> Dispatched:
        return await self._dispatch(type="sync_document", organization_id=organization_id, document_id=document_id)

    async def sync_document_chunks(self, *, organization_id: int, document_id: int) -> Dispatched:
        return await self._dispatch(type="document_chunks", organization_id=organization_id, document_id=document_id)

    async def start_crawl(self, *, organization_id: int, crawl_task_id: int) -> Dispatched:
        return await self._dispatch(type="start_crawl", organization_id=organization_id, crawl_task_id=crawl_task_id)

    async def crawl_url(self, *, organization_id: int, crawl_task_id: int, url: str) -> Dispatched:
        return await self._dispatch(
            type="crawl_url", organization_id=organization_id, crawl_task_id=crawl_task_id, url=url
        )

    async def close(self) -> None:
        await self._fallbacks.close()
        if self._session is not None:
            await self._session.close()

    async def _dispatch(self, *, organization_id: int, **rest: object) -> Dispatched:
        request = {**rest, "organization_id": organization_id}
        try:
            if not await self._paused(organization_id, request):
                await self._post(request)
                self._fallbacks.tell_soon()
                return Dispatched.ACCEPTED
        except DeliveryError as error:
            log.warning("knowledge base sync: %s; falling back", error)
            self._report_quietly(error)
            self._fallbacks.note(error.reason)
            if error.status is not None:
                self._fallbacks.tell_soon()
        await self._fallback(request)
        return Dispatched.FELL_BACK

    async def _paused(self, organization_id: int, request: RequestBody) -> bool:
        try:
            return await asyncio.wait_for(self._flags.is_enabled(PAUSE_FLAG, organization_id), self._timeout_s)
        except (FlagStoreUnavailable, TimeoutError) as error:
            raise DeliveryError("the kill switch can't be read", request, reason="flag_unreadable") from error

    async def _post(self, request: RequestBody) -> None:
        """Returns when the API promised the work. Raises DeliveryError."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._timeout_s))
        where = self._endpoint
        try:
            async with self._session.post(
                self._endpoint,
                json={"requests": [request]},
                headers={"Authorization": f"Bearer {self._token}"},
                allow_redirects=False,  # whoever answers behind a redirect promised nothing, and would get the token
            ) as response:
                status = response.status
        except TimeoutError as error:
            raise DeliveryError(f"{where} did not answer within {self._timeout_s:g} s", request) from error
        except (aiohttp.ClientError, OSError) as error:
            raise DeliveryError(f"{where} can't be reached ({type(error).__name__})", request) from error
        if status != ACCEPTED:
            raise DeliveryError(f"{where} answered {status}", request, status)

    def _report_quietly(self, error: DeliveryError) -> None:
        try:
            self._report(error)
        except Exception:  # a reporter that fails must not cost the fallback, and its failure is logged
            log.exception("knowledge base sync: the delivery error could not be reported")
