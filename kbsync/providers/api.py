"""JSON over HTTP for one source: what every provider with an API shares. Each gateway says paths, versions and meanings.

Credentials go to the API's own origin alone, redirects are not followed, what remains of a quota is respected before the
next call, and each ending that is not success becomes one of the provider errors (LS-07, RL-05).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from kbsync.domain.errors import (
    AddressRefused,
    CredentialsRefused,
    ItemGone,
    ItemUnreadable,
    ProviderBusy,
    ProviderError,
    ProviderRefused,
    ProviderUnreachable,
)
from kbsync.http.client import Response, SafeClient
from kbsync.http.errors import RedirectRefused
from ratelimits.retry_after import parse_retry_after, wait_before_next

# A pause between two calls of one run may be this long; a longer one is a delay of the job, which holds no worker.
LONGEST_PAUSE_S = 20.0
_MESSAGE_BYTES = 4_096
OWN_NETWORK = "An address of your own network is opened by KBSYNC_FETCH_ALLOW_ADDRESSES, here and for the workers."
_BUSY = frozenset({429, 503, 529})
_MAY_PASS = frozenset({408, 425})

Parameters = Mapping[str, str | int]


@dataclass(frozen=True)
class Answer:
    """A success: `value` is the parsed body, header names are lower-case."""

    value: Any
    headers: Mapping[str, str]
    url: str


# Given a status and the body as far as it is JSON: the error that it means at this provider, or None for the usual one.
Judge = Callable[[int, Any], ProviderError | None]


def usual_meaning(status: int, value: Any) -> ProviderError | None:
    return None


class JsonApi:
    """One source's calls, one after the other or side by side. `base_url` is the API's root, with its path.

    `per_second` keeps a run below a rate that the provider states for one connection; `sleep` and `clock` are for tests."""

    def __init__(
        self,
        client: SafeClient,
        base_url: str,
        *,
        headers: Mapping[str, str],
        what: str,
        judge: Judge = usual_meaning,
        per_second: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self.base_url = base_url.rstrip("/") + "/"
        self._headers = {"Accept": "application/json", **headers}
        self._what = what
        self._judge = judge
        self._gap_s = 1 / per_second if per_second else 0.0
        self._sleep = sleep
        self._clock = clock
        self._next_at = 0.0

    async def get(self, path: str, parameters: Parameters | None = None) -> Answer:
        """`path` below the root, or an absolute address of the same origin (a `next` link). Raises ProviderError."""
        url = self.address(path)
        if parameters:
            url += ("&" if "?" in url else "?") + urlencode(parameters)
        await self._take_turn()
        try:
            async with self._names_the_place():
                response = await self._client.get(url, headers=self._headers_for, max_redirects=0)
        except RedirectRefused:
            raise ProviderRefused(f"{self._what} answered a redirect: check the source's address") from None
        return self._read(response)

    async def post(self, path: str, body: object) -> Answer:
        """A read that the API wants posted (a search). Raises ProviderError."""
        data = json.dumps(body).encode()
        await self._take_turn()
        headers = {**self._headers, "Content-Type": "application/json"}
        async with self._names_the_place():
            response = await self._client.post(self.address(path), data, headers=lambda _: headers)
        return self._read(response)

    async def redirect(self, path: str) -> str | None:
        """The address that the API sends to for a file, which is not gone to; None when it would answer the file itself.
        Raises ProviderError."""

        async def stop(target: str) -> None:
            raise _Redirected(target)

        await self._take_turn()
        try:
            async with self._names_the_place():
                response = await self._client.get(
                    self.address(path),
                    headers=self._headers_for,
                    max_redirects=1,
                    on_hop=stop,
                    wants_body=lambda status, _: status >= 400,
                )
        except _Redirected as found:
            return found.target
        except RedirectRefused:
            raise ProviderRefused(f"{self._what} answered a redirect that leads nowhere") from None
        if response.status >= 300:
            self._read(response)
        return None

    def address(self, path: str) -> str:
        """Raises ProviderUnreachable for a link that leads to another origin: credentials do not follow it."""
        url = urljoin(self.base_url, path)
        if _origin(url) != _origin(self.base_url):
            raise ProviderUnreachable(f"{self._what} sent a link to another host: it is not followed")
        return url

    @asynccontextmanager
    async def _names_the_place(self) -> AsyncIterator[None]:
        """What went wrong on the way is told with the API and host that it was the way to."""
        try:
            yield
        except AddressRefused as error:
            cure = f" {OWN_NETWORK}" if "address" in str(error) else ""
            raise AddressRefused(f"{self._what} at {self._host} can't be asked: {error}.{cure}") from error
        except ProviderUnreachable as error:
            raise ProviderUnreachable(f"{self._what} at {self._host} can't be reached: {error}") from error

    @property
    def _host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    def _headers_for(self, url: str) -> Mapping[str, str]:
        return self._headers if _origin(url) == _origin(self.base_url) else {}

    async def _take_turn(self) -> None:
        now = self._clock()
        at = max(self._next_at, now)
        self._next_at = at + self._gap_s
        if at - now > LONGEST_PAUSE_S:
            raise ProviderBusy(f"{self._what}: its quota is used up for now", at - now)
        if at > now:
            await self._sleep(at - now)

    def _read(self, response: Response) -> Answer:
        pairs = [(name, line) for name, value in response.headers.items() for line in value.split("\n")]
        value = _parsed(response)
        if not 200 <= response.status < 300:
            raise self._judge(response.status, value) or self._usual(response, value, pairs)
        if value is _NO_JSON:
            raise ProviderUnreachable(f"{self._what} answered something that is no JSON, or only a part of it")
        pause = wait_before_next(pairs, now=datetime.now(UTC))
        if pause is not None:
            self._next_at = max(self._next_at, self._clock() + pause.seconds)
        return Answer(value, response.headers, response.url)

    def _usual(self, response: Response, value: Any, pairs: list[tuple[str, str]]) -> ProviderError:
        status, what = response.status, self._what
        message = f"{what} answered {status} for {urlsplit(response.url).path[:200]}"
        match status:
            case _ if status in _BUSY:
                text = response.body[:_MESSAGE_BYTES].decode("utf-8", "replace")
                wait = parse_retry_after(pairs, text, now=datetime.now(UTC))
                if wait is not None:
                    return ProviderBusy(message, wait.seconds, quota=wait.quota)
                # A 503 without a stated wait is an outage like any other 5xx.
                return ProviderBusy(message) if status == 429 else ProviderUnreachable(message)
            case 401:
                return CredentialsRefused(f"{what} refused the credentials (401). Give the source new ones.", 401)
            case 403:
                return ItemUnreadable(f"{what} does not let these credentials read it (403)")
            case 404 | 410:
                return ItemGone(f"{what} has no such thing ({status})")
            case _ if status in _MAY_PASS or status >= 500:
                return ProviderUnreachable(message)
            case _ if 300 <= status < 400:
                return ProviderRefused(f"{what} answered a redirect ({status}): check the source's address", status)
        return ProviderRefused(f"{message}. {said_in(value)}".rstrip(), status)


class _Redirected(Exception):
    def __init__(self, target: str) -> None:
        super().__init__("redirected")
        self.target = target


async def for_the_source(call: Awaitable[Answer], refusal: str) -> Answer:
    """A page of a listing: 403, 404 and 410 would be about one document, here they are about the source. `refusal` says
    what is not listed, and what helps. Raises ProviderRefused for them, and the other errors as they are."""
    try:
        return await call
    except (ItemGone, ItemUnreadable) as error:
        raise ProviderRefused(f"{refusal} ({error})") from error


class _NoJson:
    pass


_NO_JSON = _NoJson()


def _parsed(response: Response) -> Any:
    try:
        return json.loads(response.body)
    except (ValueError, RecursionError):
        return _NO_JSON


def said_in(value: Any) -> str:
    """The provider's own words for an error, one line, bounded; "" when there are none."""
    if not isinstance(value, Mapping):
        return ""
    for name in ("message", "error_description", "error", "detail", "description", "title"):
        text = value.get(name)
        if isinstance(text, str) and text.strip():
            return " ".join(text.split())[:300]
        if isinstance(text, Mapping):
            return said_in(text)
    return ""


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.netloc.lower()
