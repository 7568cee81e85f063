"""What a Scribe source is configured with, and which credentials it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from kbsync.domain.errors import CredentialsRefused
from kbsync.providers.config import read_config

BASE_URL = "https://public-api.scribehow.com"


class ScribeConfig(BaseModel):
    """`requests_per_minute`: what Scribe allows one key and address over lists and single documents."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = Field(BASE_URL, pattern=r"^https?://[^\s?#]+$")
    team_ids: tuple[UUID, ...] = Field((), max_length=100)
    types: tuple[Literal["scribe", "page"], ...] = ("scribe", "page")
    requests_per_minute: int = Field(60, ge=1, le=1_000_000)


def scribe_config(config: Mapping[str, object]) -> ScribeConfig:
    """Raises ProviderRefused naming every field that is wrong, without its value."""
    return read_config(ScribeConfig, config, "Scribe")


def api_key_in(credentials: Mapping[str, str]) -> str | None:
    """The API key; None where there is only a session token, with which nothing can be read. Raises CredentialsRefused."""
    key = credentials.get("api_key", "").strip()
    if not key and credentials.get("session_token"):
        return None
    if not key or not key.isascii() or not key.isprintable():
        raise CredentialsRefused("The Scribe source needs an API key (Settings, Developer Access, in Scribe).")
    return key
