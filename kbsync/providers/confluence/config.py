"""What a Confluence source is configured with, and which credentials it takes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Literal
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field

from kbsync.domain.errors import CredentialsRefused
from kbsync.providers.config import read_config

GATEWAY = "https://api.atlassian.com"


class ConfluenceConfig(BaseModel):
    """`base_url`: https://acme.atlassian.net for the cloud, the address with its context path for Data Center.

    `cloud_id`: the site's id, for tokens with scopes, which the site itself does not take (cloud only).
    `space_keys`: only these; a personal space is read when it is named here or with `include_personal_spaces`.
    `space_audience`: who may find what carries no restriction. "ask" reads the spaces' permissions, and what can't be read is
    found by nobody; the other two are an editor's word for it, for credentials that may not read permissions.
    `members_groups`: groups that stand for everybody with an account, as shell patterns.
    `single_calls`: how many restrictions and places of a run may be asked for one by one, where no list tells them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deployment: Literal["cloud", "data_center"] = "cloud"
    base_url: str = Field(pattern=r"^https?://[^\s?#]+$")
    cloud_id: str | None = Field(None, pattern=r"^[A-Za-z0-9-]{1,80}$")
    gateway_url: str = Field(GATEWAY, pattern=r"^https?://[^\s/?#]+/?$")
    space_keys: tuple[str, ...] = Field((), max_length=500)
    include_personal_spaces: bool = False
    include_archived_spaces: bool = False
    include_blog_posts: bool = False
    space_audience: Literal["ask", "members", "public"] = "ask"
    members_groups: tuple[str, ...] = Field(("confluence-users*", "_licensed-confluence*"), max_length=50)
    single_calls: int = Field(1_000, ge=0, le=100_000)
    requests_per_minute: int = Field(300, ge=1, le=1_000_000)

    @property
    def is_cloud(self) -> bool:
        return self.deployment == "cloud"

    @property
    def site(self) -> str:
        """The address that people see, with the context path; it ends without a slash."""
        address = self.base_url.rstrip("/")
        has_context = not self.is_cloud or urlsplit(address).path.rstrip("/").endswith("/wiki")
        return address if has_context else address + "/wiki"

    @property
    def api(self) -> str:
        """Below which `api/v2` and `rest/api` are."""
        if self.is_cloud and self.cloud_id:
            return f"{self.gateway_url.rstrip('/')}/ex/confluence/{quote(self.cloud_id, safe='')}/wiki"
        return self.site


def confluence_config(config: Mapping[str, object]) -> ConfluenceConfig:
    """Raises ProviderRefused naming every field that is wrong, without its value."""
    return read_config(ConfluenceConfig, config, "Confluence")


def authorization_of(config: ConfluenceConfig, credentials: Mapping[str, str]) -> str:
    """The Authorization header. Cloud: an e-mail address with an API token, or an OAuth access token. Data Center: a personal
    access token, or a user name with a password. Raises CredentialsRefused."""
    names = ("email", "api_token", "access_token") if config.is_cloud else ("username", "password", "token")
    user, secret, bearer = (credentials.get(name, "").strip() for name in names)
    if not all(text.isprintable() for text in (user, secret, bearer)) or not bearer.isascii():
        raise CredentialsRefused("The Confluence credentials hold characters that can't be sent.")
    if bearer:
        return f"Bearer {bearer}"
    if user and secret:
        return "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()
    if config.is_cloud:
        raise CredentialsRefused("The Confluence source needs an e-mail address and an API token, or an access token.")
    raise CredentialsRefused("The Confluence source needs a personal access token, or a user name and a password.")
