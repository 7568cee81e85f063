"""Every setting, typed, read from the environment (KBSYNC_*) by `load_settings` and nowhere else.

The environment is read in two places only: `workers/runtime.py` and `ops/cli.py` call this.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from kbsync.domain.errors import SettingsError


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="KBSYNC_", extra="ignore", frozen=True)

    environment: str = "development"
    profile: Literal["embedded", "production"] = "production"

    # Servers. Direct: migrations and LISTEN, when database_url goes through a transaction-mode pooler (pooled=true).
    database_url: str | None = None
    database_direct_url: str | None = None
    database_pooled: bool = False
    database_pool_size: int = Field(10, ge=1, le=200)
    redis_url: str | None = None
    # A queue may live on its own Redis: {"knowledge-base-chunks": "redis://..."}
    queue_redis_urls: dict[str, str] = Field(default_factory=dict)

    # Queues
    sync_concurrency: int = Field(50, ge=1, le=1000)
    chunks_concurrency: int = Field(4, ge=1, le=1000)
    sync_timeout_s: float = Field(300, gt=0)
    chunks_timeout_s: float = Field(300, gt=0)
    lease_s: float = Field(15, gt=0)
    first_backoff_s: float = Field(60, gt=0)
    max_stalls: int = Field(3, ge=0)
    drain_s: float = Field(10, ge=0)
    # None: 60 a minute in the production profile, none in the embedded one (RL table, chunks queue).
    chunks_per_minute: int | None = Field(None, ge=0)

    # API
    api_host: str = "127.0.0.1"
    api_port: int = Field(8080, ge=0, le=65535)
    api_requests_per_second: int = Field(10_000, ge=1)
    # Where people reach the dashboard through a proxy: https://kbsync.example.com (cookies, and where forms come from)
    public_url: str | None = Field(None, pattern=r"^https?://[^/?#\s]+/?$")
    api_body_limit: int = Field(2 * 1024 * 1024, ge=1024)

    # Crawling
    fetch_allow_addresses: list[str] = Field(default_factory=list)  # networks or addresses opened besides public ones
    # Source id -> addresses opened for that source alone: {"3": ["127.0.0.1"]}
    fetch_allow_for_sources: dict[str, list[str]] = Field(default_factory=dict)
    fetch_per_second: float = Field(10, gt=0)
    fetch_at_once: int = Field(8, ge=1)
    fetch_timeout_s: float = Field(30, gt=0)
    fetch_body_limit: int = Field(10 * 1024 * 1024, ge=1024)
    fetch_user_agent: str = "kbsync/0.1 (+https://example.invalid/kbsync)"
    files_roots: list[str] = Field(default_factory=list)  # folders below which a files source may read

    # Content
    content_cap: int = Field(5_000_000, ge=1_000)  # characters of Markdown
    chunk_characters: int = Field(1_600, ge=100)
    chunk_overlap: int = Field(160, ge=0)

    # Kill switch
    flag_store: Literal["postgres", "flipper-client"] = "postgres"
    flag_refresh_s: float = Field(1.0, gt=0, le=1.0)
    flipper_redis_url: str | None = None

    # Recovery
    reconcile_grace_s: float = Field(60, ge=0)
    reconcile_interval_s: float = Field(30, gt=0)

    # Secrets
    credentials_keys: SecretStr | None = None  # comma-separated Fernet keys, the first one seals
    sentry_dsn: SecretStr | None = None

    # Looking inside
    log_format: Literal["json", "console"] = "json"
    health_host: str = "127.0.0.1"  # where a worker or scheduler listens when it is given a --health-port
    metrics_open: bool = False  # /metrics of workers and schedulers without a token; the API's always takes one
    otel_endpoint: str | None = None  # an OTLP/HTTP address: traces are on (needs the extra `otel`)
    otel_share: float = Field(1.0, ge=0, le=1)  # of the traces that begin here, how many are kept


def load_settings(**overrides: object) -> Settings:
    """The settings of this process. Raises SettingsError naming every wrong variable, without its value."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # pydantic validates them
    except ValidationError as error:
        faults = "; ".join(
            f"KBSYNC_{'_'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}" for fault in error.errors()
        )
        raise SettingsError(f"settings are wrong: {faults}") from None
