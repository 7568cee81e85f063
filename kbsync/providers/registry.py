"""Which provider reads a source of which type: one line each (LS-18)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import cast

from kbsync.domain.errors import UnknownProvider
from kbsync.http.client import SafeClient
from kbsync.providers.contract import Provider, SourceSetup


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


def over_http(provider: str, name: str) -> Factory:
    """The class `name` of kbsync.providers.<provider>.provider, which reads its source with an HTTP client. It is loaded with
    its first source: a worker at rest holds no provider in memory (PF-14)."""

    def make(setup: SourceSetup, environment: ProviderEnvironment) -> Provider:
        return cast(Provider, _class_of(provider, name)(setup, environment.client_of(setup)))

    return make


def from_disk(provider: str, name: str) -> Factory:
    """The same for a provider that reads below the folders which an operator has opened."""

    def make(setup: SourceSetup, environment: ProviderEnvironment) -> Provider:
        return cast(Provider, _class_of(provider, name)(setup, environment.files_roots))

    return make


def _class_of(provider: str, name: str) -> Callable[..., object]:
    found: Callable[..., object] = getattr(import_module(f"kbsync.providers.{provider}.provider"), name)
    return found


FACTORIES: Mapping[str, Factory] = {
    "confluence": over_http("confluence", "ConfluenceProvider"),
    "files": from_disk("files", "FilesProvider"),
    "intercom": over_http("intercom", "IntercomProvider"),
    "notion": over_http("notion", "NotionProvider"),
    "scribe": over_http("scribe", "ScribeProvider"),
    "website": over_http("website", "WebsiteProvider"),
    "zendesk": over_http("zendesk", "ZendeskProvider"),
}


def build(source_type: str, setup: SourceSetup, environment: ProviderEnvironment) -> Provider:
    """The provider of a source; the caller closes it. Raises UnknownProvider, or ProviderRefused for a wrong setup."""
    factory = FACTORIES.get(source_type)
    if factory is None:
        known = ", ".join(sorted(FACTORIES))
        raise UnknownProvider(f"Sources of type {source_type[:100]!r} can't be synced here; known types: {known}.")
    return factory(setup, environment)
