"""The only file that knows the wire of a website: requests, credentials, and what a status means (LS-07, LS-16)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from kbsync.domain.errors import AddressRefused, ItemUnreadable, ProviderBusy, ProviderRefused, ProviderUnreachable
from kbsync.domain.url_scope import host_and_port
from kbsync.http.client import OnHop, Response, SafeClient
from kbsync.http.errors import RedirectRefused, ResponseRefused
from kbsync.providers.contract import PageGone, PageRefused, PageUnchanged
from kbsync.providers.website.robots import MAX_ROBOTS_BYTES, RobotsRules, parse_robots
from ratelimits.retry_after import parse_retry_after

MAX_SITEMAP_BYTES = 20 * 1024 * 1024
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES = frozenset({"text/plain", "text/markdown", "text/x-markdown"})
PAGE_TYPES = _HTML_TYPES | _TEXT_TYPES
_RETRYABLE = frozenset({408, 425, 500, 502, 504, *range(520, 528)})
_BUSY = frozenset({429, 503})


@dataclass(frozen=True)
class SitemapAnswer:
    """A sitemap's bytes (`cut` at the bound), or why there are none; `gone` when that is for good."""

    url: str
    body: bytes = b""
    cut: bool = False
    failure: str | None = None
    gone: bool = False


class WebsiteGateway:
    """Requests for one source. `credentials`: `username` and `password` for basic auth, or `header_<Name>` values; they
    go to the start URL's host alone, and never from https down to http."""

    def __init__(self, client: SafeClient, start_url: str, credentials: Mapping[str, str], robot: str) -> None:
        self._client = client
        self._robot = robot
        self._start_host = host_and_port(start_url)
        self._start_is_secure = start_url.startswith("https:")
        self._secret_headers = _secret_headers(credentials)

    async def page(
        self, url: str, *, etag: str | None, last_modified: str | None, on_hop: OnHop
    ) -> Response | PageUnchanged | PageGone | PageRefused:
        """The page's answer if it is text that was sent whole. Raises ProviderBusy and ProviderUnreachable."""
        conditions = _conditions(etag, last_modified)

        def headers(hop: str) -> dict[str, str]:
            return {"Accept": "text/html,application/xhtml+xml,text/*;q=0.8", **conditions, **self._secrets_for(hop)}

        try:
            response = await self._client.get(url, headers=headers, on_hop=on_hop, wants_body=_is_wanted_page)
        except (AddressRefused, ItemUnreadable, ProviderRefused) as error:
            return PageRefused(str(error))
        return _judged(response, asked_conditionally=bool(conditions))

    async def robots(self, origin: str) -> RobotsRules:
        """The rules of `origin` (scheme and authority). A 4xx means no rules. Raises ProviderUnreachable (as long as
        the file can't be read nothing may be fetched), ProviderBusy, AddressRefused, ProviderRefused."""
        hops: list[str] = []

        async def note_hop(url: str) -> None:
            hops.append(url)

        try:
            response = await self._client.get(
                f"{origin}/robots.txt", headers=self._secrets_for, max_bytes=MAX_ROBOTS_BYTES, cut=True, on_hop=note_hop
            )
        except RedirectRefused:
            return parse_robots(b"", self._robot)
        except (AddressRefused, ResponseRefused) as error:
            if isinstance(error, AddressRefused) and not hops:
                raise
            raise ProviderUnreachable(f"robots.txt can't be read: {error}") from error
        except ProviderUnreachable as error:
            raise ProviderUnreachable(f"robots.txt can't be read: {error}") from error
        _raise_if_retryable(response, "robots.txt")
        return parse_robots(response.body if 200 <= response.status < 300 else b"", self._robot)

    async def sitemap(self, url: str) -> SitemapAnswer:
        """A sitemap's bytes, at most 20 MiB of them. Never raises ProviderError: a sitemap that fails is a finding."""
        try:
            response = await self._client.get(url, headers=self._secrets_for, max_bytes=MAX_SITEMAP_BYTES, cut=True)
        except (AddressRefused, RedirectRefused, ProviderRefused) as error:
            return SitemapAnswer(url, failure=str(error), gone=True)
        except (ItemUnreadable, ProviderUnreachable) as error:
            return SitemapAnswer(url, failure=str(error))
        if 200 <= response.status < 300:
            return SitemapAnswer(response.url, response.body, response.cut)
        return SitemapAnswer(url, failure=f"answered {response.status}", gone=not _may_pass(response.status))

    def _secrets_for(self, url: str) -> Mapping[str, str]:
        if host_and_port(url) != self._start_host or (self._start_is_secure and not url.startswith("https:")):
            return {}
        return self._secret_headers


def _secret_headers(credentials: Mapping[str, str]) -> dict[str, str]:
    headers = {key.removeprefix("header_"): value for key, value in credentials.items() if key.startswith("header_")}
    if "username" in credentials:
        pair = f"{credentials['username']}:{credentials.get('password', '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode('ascii')}"
    for name, value in headers.items():
        if not (name.isascii() and name.isprintable() and value.isprintable()):
            raise ProviderRefused("a header of the website source holds characters that can't be sent")
    return headers


def _conditions(etag: str | None, last_modified: str | None) -> dict[str, str]:
    stated = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    return {name: value for name, value in stated.items() if value and value.isascii() and value.isprintable()}


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").split("\n", 1)[0].partition(";")[0].strip().lower()


def _is_wanted_page(status: int, headers: Mapping[str, str]) -> bool:
    return 200 <= status < 300 and _type_refusal(headers) is None


def _type_refusal(headers: Mapping[str, str]) -> str | None:
    if headers.get("content-disposition", "").strip().lower().startswith("attachment"):
        return "a download, not a page"
    kind = media_type(headers)
    return None if not kind or kind in PAGE_TYPES else f"not text: {ascii(kind[:100])[1:-1]}"


def _may_pass(status: int) -> bool:
    return status in _RETRYABLE or status in _BUSY or (status >= 500 and status not in (501, 505))


def _raise_if_retryable(response: Response, what: str) -> None:
    if response.status in _BUSY:
        raise _busy(response, what)
    if _may_pass(response.status):
        raise ProviderUnreachable(f"{what}: answered {response.status}")


def _busy(response: Response, what: str) -> ProviderBusy:
    pairs = [(name, line) for name, value in response.headers.items() for line in value.split("\n")]
    wait = parse_retry_after(pairs, now=datetime.now(UTC))
    message = f"{what}: answered {response.status}"
    return ProviderBusy(message) if wait is None else ProviderBusy(message, wait.seconds, quota=wait.quota)


def _judged(response: Response, *, asked_conditionally: bool) -> Response | PageUnchanged | PageGone | PageRefused:
    status = response.status
    if response.headers.get("cf-mitigated") == "challenge" and status in (403, 429, 503):
        return PageRefused(f"a bot wall answered ({status})")
    _raise_if_retryable(response, "the page")
    if status == 304:
        if not asked_conditionally:
            raise ProviderUnreachable("the page: answered 304 without having been asked whether it changed")
        return PageUnchanged()
    if status in (404, 410):
        return PageGone(status)
    if status in (401, 403, 407, 451):
        return PageRefused(f"no access (answered {status})")
    if status in (204, 205):
        return PageRefused(f"no content (answered {status})")
    if not 200 <= status < 300:
        return PageRefused(f"answered {status}")
    refusal = _type_refusal(response.headers)
    return PageRefused(refusal) if refusal else response
