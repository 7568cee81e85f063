"""A provider built for an account as a worker builds it, and what it lists, taken apart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

from kbsync.http.addresses import AllowList
from kbsync.http.client import FetchLimits, SafeClient
from kbsync.providers.contract import (
    ListedDocument,
    ListedSection,
    ListingEnd,
    ListingPart,
    Provider,
    SourceSetup,
    UnreadableItem,
)
from kbsync.providers.registry import ProviderEnvironment, build
from tests.providers.account import Account

# Long enough for a busy machine; a silent server is given up by the second.
LIMITS = FetchLimits(total_s=60, first_byte_s=30, connect_s=10, body_bytes=20_000_000, drip_grace_s=2)
IMPATIENT = replace(LIMITS, first_byte_s=1.5)


@asynccontextmanager
async def provider_of(account: Account, limits: FetchLimits = LIMITS) -> AsyncIterator[Provider]:
    client = SafeClient(user_agent="kbsync-test", allowed=AllowList.of(["127.0.0.1"]), limits=limits)
    setup = SourceSetup(1, 1, account.config(), account.credentials())
    provider = build(account.type, setup, ProviderEnvironment(client))
    try:
        yield provider
    finally:
        await provider.close()
        await client.close()


async def listing(provider: Provider) -> list[ListingPart]:
    return [part async for part in provider.list_items()]


def listed(parts: Iterable[ListingPart]) -> list[str]:
    return [part.external_id for part in parts if isinstance(part, ListedDocument | UnreadableItem)]


def end_of(parts: list[ListingPart]) -> ListingEnd:
    assert isinstance(parts[-1], ListingEnd)
    return parts[-1]


async def parts_of(account: Account) -> list[ListingPart]:
    """A whole listing by a provider of its own."""
    async with provider_of(account) as provider:
        return await listing(provider)


def documents(parts: Iterable[ListingPart]) -> dict[str, ListedDocument]:
    return {part.external_id: part for part in parts if isinstance(part, ListedDocument)}


def sections(parts: Iterable[ListingPart]) -> dict[str, ListedSection]:
    return {part.external_id: part for part in parts if isinstance(part, ListedSection)}
