"""What a person is asked for an Intercom workspace."""

from __future__ import annotations

from kbsync.providers.declaration import Declaration, Secret
from kbsync.providers.intercom.config import IntercomConfig

SETUP = Declaration(
    title="Intercom",
    config=IntercomConfig,
    secrets=((Secret("token", "an access token: Developer Hub, your app, Authentication"),),),
    help={
        "base_url": "another region: https://api.eu.intercom.io, https://api.au.intercom.io",
        "locales": "only these; all that are published otherwise",
        "help_center_ids": "only articles of these help centers",
        "include_loose_articles": "articles of no collection as well",
    },
)
