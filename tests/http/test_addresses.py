"""Which addresses may be connected to."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsync.domain.errors import AddressRefused, SettingsError
from kbsync.http.addresses import AllowList, check_address, embedded_v4, refusal

REFUSED = {
    "0.0.0.0": "unspecified",
    "10.1.2.3": "private",
    "100.64.0.1": "shared",
    "100.100.100.200": "metadata in shared space",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "metadata",
    "169.254.169.254": "metadata",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.192": "metadata in reserved space",
    "192.0.2.1": "documentation",
    "192.88.99.1": "6to4 relay",
    "192.168.1.1": "private",
    "198.18.0.1": "benchmarks",
    "198.51.100.7": "documentation",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::": "unspecified",
    "::1": "loopback",
    "::127.0.0.1": "compatible loopback",
    "::8.8.8.8": "compatible",
    "::ffff:127.0.0.1": "mapped loopback",
    "::ffff:8.8.8.8": "mapped",
    "::ffff:a9fe:a9fe": "mapped metadata",
    "0:0:0:0:0:ffff:10.0.0.1": "mapped private",
    "64:ff9b::7f00:1": "NAT64 loopback",
    "64:ff9b::8.8.8.8": "NAT64",
    "64:ff9b:1::a00:1": "local NAT64",
    "2001::1": "teredo",
    "2001:0:7f00:1::": "teredo",
    "2001:10::1": "orchid",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "6to4 loopback",
    "2002:808:808::1": "6to4",
    "3fff::1": "documentation",
    "5f00::1": "segment routing",
    "100::1": "discard",
    "fc00::1": "private",
    "fd00:ec2::254": "metadata",
    "fe80::1": "link-local",
    "fe80::1%eth0": "scoped",
    "2a00::1%eth0": "scoped",
    "::1%lo": "scoped",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
}


@pytest.mark.spec("LS-17", "SE-03")
@pytest.mark.parametrize("ip", REFUSED)
def test_an_address_that_is_not_public_is_refused(ip: str) -> None:
    with pytest.raises(AddressRefused, match=r"^address not allowed$"):
        check_address(ip)


@pytest.mark.parametrize("ip", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2a00:1450:4001::1", "2606:4700::1111", "2400::1"])
def test_a_public_address_passes(ip: str) -> None:
    assert str(check_address(ip)) == ip


@pytest.mark.spec("LS-17")
def test_the_allow_list_opens_what_it_lists_and_nothing_wrapped_in_it() -> None:
    allowed = AllowList.of(["127.0.0.0/8", "fd00::/8", "64:ff9b::/96", " 10.0.0.5 "])
    for ip in ("127.0.0.1", "fd00::1", "10.0.0.5", "64:ff9b::8.8.8.8", "64:ff9b::127.0.0.1"):
        check_address(ip, allowed)
    for ip in ("10.0.0.6", "192.168.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::10.0.0.6", "2002:7f00:1::"):
        with pytest.raises(AddressRefused):
            check_address(ip, allowed)


def test_a_wrong_entry_is_named() -> None:
    with pytest.raises(SettingsError, match="'nonsense'"):
        AllowList.of(["127.0.0.1", "nonsense"])


@given(st.ip_addresses(v=6) | st.ip_addresses(v=4))
def test_what_passes_is_public_by_the_library_s_own_count_too(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if refusal(address, AllowList()) is None:
        assert address.is_global
        assert not any((address.is_multicast, address.is_private, address.is_reserved, address.is_loopback))
        assert embedded_v4(address) is None
