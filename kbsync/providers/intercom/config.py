"""What an Intercom source is configured with. Whether the daily tick asks for it is the source's own `daily_tick`."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from kbsync.domain.errors import CredentialsRefused
from kbsync.providers.config import read_config

BASE_URL = "https://api.intercom.io"  # EU: https://api.eu.intercom.io, AU: https://api.au.intercom.io


class IntercomConfig(BaseModel):
    """`locales`: only these (empty: all that are published). `help_center_ids`: only articles below their collections.
    `include_loose_articles`: articles of no collection, which stand in no help center."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = Field(BASE_URL, pattern=r"^https?://[^\s?#]+$")
    api_version: str = Field("2.14", pattern=r"^\d\.\d{1,2}$")
    locales: tuple[str, ...] = Field((), max_length=100)
    help_center_ids: tuple[int, ...] = Field((), max_length=100)
    include_loose_articles: bool = False
    requests_per_minute: int = Field(600, ge=1, le=1_000_000)


def intercom_config(config: Mapping[str, object]) -> IntercomConfig:
    """Raises ProviderRefused naming every field that is wrong, without its value."""
    return read_config(IntercomConfig, config, "Intercom")


def token_in(credentials: Mapping[str, str]) -> str:
    """Raises CredentialsRefused."""
    token = credentials.get("token", "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise CredentialsRefused("The Intercom source needs an access token (Developer Hub, your app, Authentication).")
    return token
