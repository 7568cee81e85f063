"""Which addresses may be connected to (LS-17, SE-03). Pure; judged on the address that is really connected to.

The rule is closed: an IPv4 address outside every reserved block, or an IPv6 address inside global unicast (2000::/3)
and outside its reserved blocks. Forms that carry an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) are refused
as such: the kernel or a gateway would turn them into another address than the one that was judged. `ipaddress` alone
does not do: it calls NAT64 and 6to4 forms of loopback global.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from kbsync.domain.errors import AddressRefused, SettingsError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Names that clouds resolve to their metadata service, whatever the address behind them.
METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "metadata", "instance-data"})

_RESERVED: tuple[tuple[Network, str], ...] = tuple(
    (ipaddress.ip_network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "metadata"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "mapped"),
        ("::/96", "mapped"),
        ("64:ff9b::/96", "translated"),
        ("64:ff9b:1::/48", "translated"),
        ("2001::/32", "tunnelled"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "reserved"),
        ("2002::/16", "tunnelled"),
        ("3fff::/20", "reserved"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = IPv6Network("::/96")


@dataclass(frozen=True)
class AllowList:
    """Networks opened besides public addresses. It belongs to one client, so it can be opened for one source alone."""

    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> AllowList:
        """From networks or single addresses. Raises SettingsError that names the wrong entry."""
        networks: list[Network] = []
        for entry in entries:
            try:
                networks.append(ipaddress.ip_network(entry.strip(), strict=False))
            except ValueError:
                raise SettingsError(f"allowed addresses: {entry!r} is no network or address") from None
        return cls(tuple(networks))

    def holds(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.networks)


def check_address(ip: str | Address, allowed: AllowList = AllowList()) -> Address:  # frozen, empty
    """The address, proven allowed. Raises AddressRefused, in the same words whatever the address is.

    An opened network does not open what is wrapped inside it: 64:ff9b::/96 on the list still refuses the NAT64 form of
    a loopback address unless that is listed too."""
    address = _parsed(ip)
    if refusal(address, allowed) is not None:
        raise AddressRefused("address not allowed")
    return address


def refusal(address: Address, allowed: AllowList) -> str | None:
    """The kind of address that is refused (for a log line; error texts stay uniform), or None."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return "scoped"
    if not allowed.holds(address):
        return _reserved_kind(address)
    embedded = embedded_v4(address)
    return None if embedded is None else refusal(embedded, allowed)


def embedded_v4(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 one carries, in any of the forms that systems unwrap."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _NAT64) or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _reserved_kind(address: Address) -> str | None:
    for network, kind in _RESERVED:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST_V6:
        return "reserved"
    return None


def _parsed(ip: str | Address) -> Address:
    if not isinstance(ip, str):
        return ip
    try:
        return ipaddress.ip_address(ip)
    except ValueError:
        raise AddressRefused("address not allowed") from None
