"""What a person is asked for a Scribe account."""

from __future__ import annotations

from kbsync.providers.declaration import Declaration, Secret
from kbsync.providers.scribe.config import ScribeConfig

SETUP = Declaration(
    title="Scribe",
    config=ScribeConfig,
    secrets=(
        (Secret("api_key", "Settings, Developer Access, in Scribe"),),
        (Secret("session_token", "nothing can be read with it: Scribe's API takes a key", is_offered=False),),
    ),
    help={
        "base_url": "of Scribe's public API",
        "team_ids": "only these teams",
        "types": "scribe, page, or both",
        "requests_per_minute": "no more than these",
    },
)
