"""Connections that can only reach checked addresses (LS-17).

Three walls, because each sees what another can't: the resolver sees every DNS answer of a name before one is used (all
must pass, so that a name can't hide a private address among public ones); the connections are made to the very
addresses that passed (a second look-up, which rebinding needs, never happens); the socket factory sees the final
address of each connection, literals included, for which aiohttp asks no resolver.
"""

from __future__ import annotations

import socket
from collections.abc import Collection

from aiohttp import AddrInfoType, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from kbsync.domain.errors import AddressRefused
from kbsync.http.addresses import METADATA_NAMES, AllowList, check_address

WEB_PORTS = frozenset({80, 443})


class AddressPolicy:
    """What one client may connect to: public addresses on the web's ports, allow-listed addresses on any port."""

    def __init__(self, allowed: AllowList, ports: Collection[int] = WEB_PORTS) -> None:
        self._allowed = allowed
        self._ports = frozenset(ports)

    def check(self, ip: str, port: int) -> None:
        """Raises AddressRefused unless the address is allowed and, if it is not allow-listed, so is the port."""
        address = check_address(ip, self._allowed)
        if port not in self._ports and not self._allowed.holds(address):
            raise AddressRefused(f"port {port} not allowed")

    def check_name(self, host: str) -> None:
        if host.lower().rstrip(".") in METADATA_NAMES:
            raise AddressRefused("address not allowed")


class CheckedResolver(AbstractResolver):
    """Answers with what `inner` answers, if every address of it is allowed."""

    def __init__(self, policy: AddressPolicy, inner: AbstractResolver | None = None) -> None:
        self._policy = policy
        self._inner = inner or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self._policy.check_name(host)
        answers = await self._inner.resolve(host, port, family)
        for answer in answers:
            self._policy.check(answer["host"], port)
        return answers

    async def close(self) -> None:
        await self._inner.close()


def make_connector(policy: AddressPolicy, resolver: AbstractResolver | None, at_once: int) -> TCPConnector:
    """A pool whose every connection passed `policy`. Connections are kept for reuse: they lead where they were checked."""

    def checked_socket(info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        policy.check(str(address[0]), int(address[1]))
        return socket.socket(family, kind, protocol)

    return TCPConnector(
        resolver=CheckedResolver(policy, resolver),
        socket_factory=checked_socket,
        # One after the other: racing connections would wrap a refusal into a list of failures.
        happy_eyeballs_delay=None,
        ttl_dns_cache=60,
        limit=at_once,
        limit_per_host=0,
    )
