"""What a Notion source is configured with, and which credentials it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kbsync.domain.errors import CredentialsRefused
from kbsync.providers.config import read_config
from kbsync.providers.notion.payloads import dashed

BASE_URL = "https://api.notion.com/v1"
ApiVersion = Literal["2022-06-28", "2025-09-03", "2026-03-11"]
_ID_AT_THE_END = re.compile(r"([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})/?$")


class NotionConfig(BaseModel):
    """`root_page_ids`: pages or databases, as ids or as their addresses, that are walked whatever the search shows.

    `walk_requests` bounds what a listing spends on walking, `page_requests` what one document may cost; a job at
    Notion's three requests a second has time for some 800 of them. After `reread_after_days` a page is read again though
    its time stands still (0: never)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = Field(BASE_URL, pattern=r"^https?://[^\s?#]+$")
    api_version: ApiVersion = "2025-09-03"
    root_page_ids: tuple[str, ...] = Field((), max_length=100)
    requests_per_second: float = Field(3.0, gt=0, le=100_000)
    walk_requests: int = Field(300, ge=0, le=100_000)
    page_requests: int = Field(500, ge=1, le=100_000)
    reread_after_days: int = Field(30, ge=0, le=3_650)

    @field_validator("root_page_ids")
    @classmethod
    def _ids(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        found = [_ID_AT_THE_END.search(one.split("?")[0].split("#")[0].strip()) for one in given]
        if not all(found):
            raise ValueError("each must be a page's id, or its address")
        return tuple(dict.fromkeys(dashed(one[1]) for one in found if one))


def notion_config(config: Mapping[str, object]) -> NotionConfig:
    """Raises ProviderRefused naming every field that is wrong, without its value."""
    return read_config(NotionConfig, config, "Notion")


def token_in(credentials: Mapping[str, str]) -> str:
    """The connection's token, of whatever form: Notion alone can tell whether it holds. Raises CredentialsRefused."""
    token = credentials.get("token", "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise CredentialsRefused(
            "The Notion source needs the token of a connection (Settings, Connections, in Notion)."
        )
    return token
