"""What a website source can be told (its `config`), checked."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kbsync.domain.errors import AddressRefused
from kbsync.domain.url_identity import Found, NotFollowed, judge_link
from kbsync.domain.url_scope import Scope, host_and_port
from kbsync.providers.config import read_config


class WebsiteConfig(BaseModel):
    """`hosts` are crawled besides the start URL's own, each `host` or `host:port`. Paths are prefixes on a segment
    boundary; no `include_paths` means every path. Depth counts links from the start page and the sitemap's pages."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    start_url: str
    hosts: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    exclude_paths: tuple[str, ...] = ()
    max_depth: int = Field(20, ge=0, le=100)
    max_urls: int = Field(5_000, ge=1, le=1_000_000)
    max_urls_per_pattern: int = Field(1_000, ge=1)
    use_sitemaps: bool = True

    @field_validator("start_url")
    @classmethod
    def _can_be_fetched(cls, url: str) -> str:
        judged = judge_link(url, "")
        if isinstance(judged, NotFollowed):
            raise ValueError(judged.reason)
        return url

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        Scope.of(hosts)
        return hosts

    @field_validator("include_paths", "exclude_paths")
    @classmethod
    def _are_prefixes(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        Scope.of((), prefixes)
        return prefixes

    @property
    def start(self) -> Found:
        judged = judge_link(self.start_url, "")
        if isinstance(judged, NotFollowed):  # the validator refused it
            raise AddressRefused(f"start URL not allowed: {judged.reason}")
        return judged

    @property
    def scope(self) -> Scope:
        own = host_and_port(self.start.identity)
        return Scope.of((own, *self.hosts), self.include_paths, self.exclude_paths)


def website_config(config: Mapping[str, object]) -> WebsiteConfig:
    """Raises ProviderRefused naming every field that is wrong, without its value."""
    return read_config(WebsiteConfig, config, "Website")
