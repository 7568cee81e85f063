"""Which provider reads a source of which type: one line each (LS-18)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kbsync.domain.errors import UnknownProvider
from kbsync.http.client import SafeClient
from kbsync.providers.confluence.provider import ConfluenceProvider
from kbsync.providers.contract import Provider, SourceSetup
from kbsync.providers.files.provider import FilesProvider
from kbsync.providers.intercom.provider import IntercomProvider
from kbsync.providers.notion.provider import NotionProvider
from kbsync.providers.scribe.provider import ScribeProvider
from kbsync.providers.website.provider import WebsiteProvider
from kbsync.providers.zendesk.provider import ZendeskProvider


@dataclass(frozen=True)
class ProviderEnvironment:
    """What providers share in a process. `clients_of_sources`: sources that may reach addresses others may not have a
    client of their own. `files_roots`: the folders below which a files source may read."""

    client: SafeClient
    clients_of_sources: Mapping[int, SafeClient] = field(default_factory=dict)
    files_roots: tuple[str, ...] = ()

    def client_of(self, setup: SourceSetup) -> SafeClient:
        return self.clients_of_sources.get(setup.source_id, self.client)


Factory = Callable[[SourceSetup, ProviderEnvironment], Provider]

FACTORIES: Mapping[str, Factory] = {
    "confluence": lambda setup, environment: ConfluenceProvider(setup, environment.client_of(setup)),
    "files": lambda setup, environment: FilesProvider(setup, environment.files_roots),
    "intercom": lambda setup, environment: IntercomProvider(setup, environment.client_of(setup)),
    "notion": lambda setup, environment: NotionProvider(setup, environment.client_of(setup)),
    "scribe": lambda setup, environment: ScribeProvider(setup, environment.client_of(setup)),
    "website": lambda setup, environment: WebsiteProvider(setup, environment.client_of(setup)),
    "zendesk": lambda setup, environment: ZendeskProvider(setup, environment.client_of(setup)),
}


def build(source_type: str, setup: SourceSetup, environment: ProviderEnvironment) -> Provider:
    """The provider of a source; the caller closes it. Raises UnknownProvider, or ProviderRefused for a wrong setup."""
    factory = FACTORIES.get(source_type)
    if factory is None:
        known = ", ".join(sorted(FACTORIES))
        raise UnknownProvider(f"Sources of type {source_type[:100]!r} can't be synced here; known types: {known}.")
    return factory(setup, environment)
