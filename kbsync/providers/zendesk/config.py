"""What a Zendesk source is configured with, and which credentials it takes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from kbsync.domain.errors import CredentialsRefused
from kbsync.providers.config import read_config


class ZendeskConfig(BaseModel):
    """`base_url`: https://acme.zendesk.com. `brands`: subdomains (empty: every brand with a help center that the
    credentials see). `locales`: only these, an article that has none of them in its own (empty: all that are published).
    `brand_urls`: where a brand is reached by another address than its subdomain (a proxy)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = Field(pattern=r"^https?://[^\s/?#]+/?$")
    brands: tuple[str, ...] = Field((), max_length=500)
    locales: tuple[str, ...] = Field((), max_length=200)
    brand_urls: dict[str, str] = Field(default_factory=dict)
    requests_per_minute: int = Field(200, ge=1, le=1_000_000)

    @property
    def subdomain(self) -> str:
        return (urlsplit(self.base_url).hostname or "").split(".")[0]

    def url_of(self, subdomain: str) -> str:
        """A brand lives at its own subdomain of the same zone."""
        if subdomain in self.brand_urls:
            return self.brand_urls[subdomain]
        parts = urlsplit(self.base_url)
        zone = parts.netloc.partition(".")[2]
        return f"{parts.scheme}://{subdomain}.{zone}" if zone and subdomain != self.subdomain else self.base_url


def zendesk_config(config: Mapping[str, object]) -> ZendeskConfig:
    """Raises ProviderRefused naming every field that is wrong, without its value."""
    return read_config(ZendeskConfig, config, "Zendesk")


def authorization_of(credentials: Mapping[str, str]) -> str:
    """The Authorization header: an OAuth token, or an e-mail address with an API token. Raises CredentialsRefused."""
    oauth, email, token = (credentials.get(name, "").strip() for name in ("oauth_token", "email", "api_token"))
    if not all(text.isascii() and text.isprintable() for text in (oauth, email, token)):
        raise CredentialsRefused("The Zendesk credentials hold characters that can't be sent.")
    if oauth:
        return f"Bearer {oauth}"
    if email and token:
        return "Basic " + base64.b64encode(f"{email}/token:{token}".encode()).decode()
    raise CredentialsRefused("The Zendesk source needs an e-mail address and an API token, or an OAuth token.")
