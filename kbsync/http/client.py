"""The client for everything that an outsider's URL can point to: websites, their robots files, sitemaps and pages.

Public addresses only (or allow-listed ones), http(s) only, redirects by hand, bodies and headers bounded, slow servers
cut off, no cookies, no proxy from the environment, no credentials in a URL (LS-17, SE-03, SE-05).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar
from aiohttp.abc import AbstractResolver
from aiohttp.client_exceptions import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorSSLError,
    ClientPayloadError,
    ClientResponseError,
    InvalidURL,
)
from yarl import URL

from kbsync.domain.errors import AddressRefused, ProviderRefused, ProviderUnreachable
from kbsync.domain.url_identity import NotFollowed, judge_link
from kbsync.http.addresses import AllowList
from kbsync.http.body import BodyLimits, encoding_of, read_body
from kbsync.http.connections import WEB_PORTS, AddressPolicy, CheckedResolver, make_connector
from kbsync.http.errors import RedirectRefused, ResponseRefused
from kbsync.telemetry import metrics

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REDIRECT_BODY = 65_536

HeadersFor = Callable[[str], Mapping[str, str]]
OnHop = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class FetchLimits:
    """Bounds of one fetch; seconds and bytes. `total_s` spans all hops."""

    total_s: float = 30
    connect_s: float = 10
    first_byte_s: float = 20
    body_bytes: int = 10 * 1024 * 1024
    max_redirects: int = 5
    max_header_bytes: int = 16_384
    max_headers: int = 100
    min_bytes_per_s: float = 256
    drip_grace_s: float = 5
    at_once: int = 100


@dataclass(frozen=True)
class Hop:
    """A redirect that was followed: `status` sent the client from `url` to the next one."""

    status: int
    url: str


@dataclass(frozen=True)
class Response:
    """An answer of any status. `url` is where it came from after `hops`; header names are lower-case, the
    values of a repeated one joined by a line end; `cut` says that the body was longer than asked for."""

    status: int
    url: str
    hops: tuple[Hop, ...]
    headers: Mapping[str, str]
    body: bytes
    cut: bool = False


@dataclass(frozen=True)
class _Ask:
    headers: HeadersFor
    limits: BodyLimits
    wants_body: Callable[[int, Mapping[str, str]], bool]
    post: bytes | None = None  # the body of a POST; None: a GET


class SafeClient:
    """One pool of connections under one allow-list. Two sources with different allow-lists need two clients: a kept
    connection must never serve a source that could not have opened it."""

    def __init__(
        self,
        *,
        user_agent: str,
        allowed: AllowList = AllowList(),  # noqa: B008  # frozen, empty
        ports: Collection[int] = WEB_PORTS,
        limits: FetchLimits = FetchLimits(),  # frozen
        resolver: AbstractResolver | None = None,
    ) -> None:
        self.user_agent = user_agent
        self.limits = limits
        self._policy = AddressPolicy(allowed, ports)
        self._resolver = resolver
        self._session: ClientSession | None = None

    async def get(
        self,
        url: str,
        *,
        headers: HeadersFor | None = None,
        max_bytes: int | None = None,
        cut: bool = False,
        max_redirects: int | None = None,
        on_hop: OnHop | None = None,
        wants_body: Callable[[int, Mapping[str, str]], bool] | None = None,
    ) -> Response:
        """Fetches `url`, spelled as given. `headers` are asked for each hop's URL (credentials must not travel),
        `on_hop` is awaited with a redirect's target before it is fetched and may raise, `wants_body` decides from
        status and headers whether the body is worth reading.

        Raises AddressRefused, ResponseRefused and RedirectRefused (permanent), ProviderRefused for a certificate that
        doesn't hold, ProviderUnreachable for all that may pass: no connection, time-out, truncated or malformed body."""
        ask = _Ask(
            headers or (lambda _: {}),
            BodyLimits(
                max_bytes or self.limits.body_bytes,
                min_bytes_per_s=self.limits.min_bytes_per_s,
                drip_grace_s=self.limits.drip_grace_s,
                cut=cut,
            ),
            wants_body or (lambda _status, _headers: True),
        )
        try:
            async with asyncio.timeout(self.limits.total_s):
                return await self._follow(
                    url, ask, on_hop, self.limits.max_redirects if max_redirects is None else max_redirects
                )
        except TimeoutError:
            raise ProviderUnreachable(f"no complete answer within {self.limits.total_s:g} s") from None

    async def post(self, url: str, body: bytes, *, headers: HeadersFor) -> Response:
        """Posts `body` to an API. A redirect is an answer like another one: a body is sent to the address it was meant
        for only. Raises as `get` does."""
        limits = BodyLimits(
            self.limits.body_bytes, min_bytes_per_s=self.limits.min_bytes_per_s, drip_grace_s=self.limits.drip_grace_s
        )
        ask = _Ask(headers, limits, lambda _status, _headers: True, body)
        try:
            async with asyncio.timeout(self.limits.total_s):
                return await self._one(url, ask)
        except TimeoutError:
            raise ProviderUnreachable(f"no complete answer within {self.limits.total_s:g} s") from None

    async def checked_url(self, url: str) -> str:
        """`url`, spelled so that it may be handed to somebody else to follow: ASCII, http(s), no credentials, no fragment,
        and a host of which every address that it has now is one that this client may reach.

        Raises AddressRefused; ProviderUnreachable when the name doesn't resolve."""
        target = self._checked(url)
        resolver = CheckedResolver(self._policy, self._resolver)
        try:
            async with asyncio.timeout(self.limits.connect_s):
                await resolver.resolve(target.host or "", target.port or 0)
        except (OSError, TimeoutError):
            raise ProviderUnreachable("the host name doesn't resolve") from None
        judged = judge_link(url, "")
        assert not isinstance(judged, NotFollowed)
        return judged.fetch_url

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _follow(self, url: str, ask: _Ask, on_hop: OnHop | None, max_redirects: int) -> Response:
        hops: list[Hop] = []
        while True:
            response = await self._one(url, ask)
            location = response.headers.get("location")
            if response.status not in REDIRECTS or location is None:
                return replace(response, hops=tuple(hops))
            hops.append(Hop(response.status, url))
            url = _next(location, hops, max_redirects)
            if on_hop is not None:
                await on_hop(url)

    async def _one(self, url: str, ask: _Ask) -> Response:
        target = self._checked(url)
        status: int | None = None
        began = time.monotonic()
        try:
            response = await self._exchange(target, url, ask)
            status = response.status
            return response
        finally:
            metrics.provider_called(status, time.monotonic() - began)

    async def _exchange(self, target: URL, url: str, ask: _Ask) -> Response:
        try:
            async with asyncio.timeout(self.limits.first_byte_s):
                answer = await self._opened().request(
                    "GET" if ask.post is None else "POST",
                    target,
                    data=ask.post,
                    headers=ask.headers(url),
                    allow_redirects=False,
                    max_redirects=0,
                )
        except TimeoutError:
            raise ProviderUnreachable(f"no answer within {self.limits.first_byte_s:g} s") from None
        except (ClientError, OSError, ValueError) as error:
            raise _as_provider_error(error) from error
        try:
            return await self._read(answer, url, ask)
        except (ClientError, OSError) as error:
            raise _as_provider_error(error) from error
        finally:
            answer.close() if not answer.content.at_eof() else answer.release()

    async def _read(self, answer: ClientResponse, url: str, ask: _Ask) -> Response:
        headers = _joined(answer)
        limits = ask.limits
        if answer.status in REDIRECTS:
            # Read only to keep the connection: what it says is not wanted.
            if (answer.content_length or 0) > _REDIRECT_BODY:
                return Response(answer.status, url, (), headers, b"")
            limits = replace(limits, max_bytes=_REDIRECT_BODY, cut=True)
        elif not ask.wants_body(answer.status, headers):
            return Response(answer.status, url, (), headers, b"", cut=True)
        elif not limits.cut and (answer.content_length or 0) > limits.max_bytes:
            raise ResponseRefused(f"the body is larger than {limits.max_bytes} bytes")
        encoding = encoding_of(headers.get("content-encoding"))
        body, was_cut = await read_body(answer.content, encoding, limits, time.monotonic)
        return Response(answer.status, url, (), headers, body, was_cut)

    def _checked(self, url: str) -> URL:
        """The URL to hand to aiohttp verbatim. Literal addresses are judged here, names when they are resolved."""
        judged = judge_link(url, "")
        if isinstance(judged, NotFollowed):
            raise AddressRefused(f"URL not allowed: {judged.reason}")
        target = URL(judged.fetch_url, encoded=True)
        host, port = target.host or "", target.port or 0
        if ":" in host or host.replace(".", "").isdigit():
            self._policy.check(host, port)
        else:
            self._policy.check_name(host)
        return target

    def _opened(self) -> ClientSession:
        if self._session is None:
            self._session = ClientSession(
                connector=make_connector(self._policy, self._resolver, self.limits.at_once),
                cookie_jar=DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                headers={"User-Agent": self.user_agent, "Accept-Encoding": "gzip, deflate"},
                timeout=ClientTimeout(
                    total=None, connect=None, sock_connect=self.limits.connect_s, sock_read=self.limits.first_byte_s
                ),
                max_line_size=self.limits.max_header_bytes,
                max_field_size=self.limits.max_header_bytes,
                max_headers=self.limits.max_headers,
            )
        return self._session


def _next(location: str, hops: list[Hop], max_redirects: int) -> str:
    target = judge_link(location, hops[-1].url)
    if isinstance(target, NotFollowed):
        # A redirect to nothing but a fragment is a redirect to itself.
        raise RedirectRefused(f"redirected to a URL that can't be followed: {target.reason}")
    if target.fetch_url in {hop.url for hop in hops}:
        raise RedirectRefused("redirects in a loop")
    if len(hops) > max_redirects:
        raise RedirectRefused(f"more than {max_redirects} redirects")
    return target.fetch_url


def _joined(answer: ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]}\n{value}" if key in headers and key != "location" else value
    return headers


def _as_provider_error(error: Exception) -> Exception:
    """The transport's errors in our words. They name no address: what is inside a network is nobody's business."""
    match error:
        case ClientConnectorCertificateError() | ClientConnectorSSLError():
            return ProviderRefused("the certificate or TLS of the host doesn't hold")
        case ClientConnectorDNSError():
            return ProviderUnreachable("the host name doesn't resolve")
        case InvalidURL():
            return AddressRefused("URL not allowed")
        case ClientPayloadError():
            return ProviderUnreachable("the body is truncated or malformed")
        case ClientResponseError(status=400):
            return ResponseRefused("the response's headers are too large or malformed")
        case ClientError() | OSError():
            return ProviderUnreachable(f"the connection failed ({type(error).__name__})")
        case _:
            return AddressRefused("URL not allowed")
