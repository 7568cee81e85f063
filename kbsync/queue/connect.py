"""Redis clients from URLs: plain, TLS, unix socket and Sentinel; a Cluster URL is refused (QU-22)."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from redis.asyncio import Redis
from redis.asyncio.sentinel import Sentinel

from kbsync.domain.errors import SettingsError

CONNECT_TIMEOUT_S = 1.0
SOCKET_TIMEOUT_S = 2.0
_PLAIN = frozenset({"redis", "rediss", "unix"})


def open_redis(url: str, *, socket_timeout_s: float = SOCKET_TIMEOUT_S) -> Redis:
    """A client that gives up on a silent server after `socket_timeout_s`. Connects on first use.

    `redis+sentinel://[user:password@]host:26379,host2:26379/<service>/<db>` asks the sentinels for the master each time
    it connects. Raises SettingsError for a Cluster or unknown URL; the message holds no password."""
    scheme = url.split("://", 1)[0]
    if "cluster" in scheme:
        raise SettingsError(
            "a Redis Cluster can't hold a queue: its keys (arq's layout) are spread over slots and its scripts change "
            "several at once; give each queue its own Redis (KBSYNC_QUEUE_REDIS_URLS), or use Sentinel"
        )
    timeouts: dict[str, Any] = {"socket_timeout": socket_timeout_s, "socket_connect_timeout": CONNECT_TIMEOUT_S}
    if scheme in _PLAIN:
        try:
            client: Redis = Redis.from_url(url, encoding_errors="surrogateescape", **timeouts)
        except ValueError as error:
            raise SettingsError(f"a Redis URL can't be read: {error}") from None
        return client
    if scheme in ("redis+sentinel", "rediss+sentinel"):
        return _by_sentinel(url, tls=scheme.startswith("rediss"), timeouts=timeouts)
    raise SettingsError(
        f"a Redis URL starts with redis://, rediss://, unix:// or redis+sentinel://, not {scheme[:20]!r}"
    )


def _by_sentinel(url: str, *, tls: bool, timeouts: dict[str, Any]) -> Redis:
    parts = urlsplit(url)
    login, _, hosts = parts.netloc.rpartition("@")
    path = [part for part in parts.path.split("/") if part]
    try:
        addresses = [_address(host) for host in hosts.split(",") if host]
        db = int(path[1]) if len(path) > 1 else 0
    except ValueError:
        raise SettingsError("a Sentinel URL's ports and database are numbers") from None
    if not addresses or not path:
        raise SettingsError("a Sentinel URL is redis+sentinel://host:26379,host2:26379/<service name>/<db>")
    user, _, password = login.partition(":")
    options = parse_qs(parts.query)
    sentinel = Sentinel(  # type: ignore[no-untyped-call]  # redis-py has no types for it
        addresses,
        sentinel_kwargs={"password": options["sentinel_password"][0], **timeouts}
        if "sentinel_password" in options
        else timeouts,
    )
    master: Redis = sentinel.master_for(
        path[0],
        db=db,
        encoding_errors="surrogateescape",
        username=unquote(user) or None,
        password=unquote(password) or None,
        ssl=tls,
        **timeouts,
    )
    return master


def _address(host: str) -> tuple[str, int]:
    name, _, port = host.rpartition(":")
    return (name.strip("[]"), int(port)) if name else (host, 26379)
