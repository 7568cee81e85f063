"""What a person is asked for an Intercom workspace."""

from __future__ import annotations

from kbsync.providers.declaration import Declaration, Secret
from kbsync.providers.intercom.config import IntercomConfig

SETUP = Declaration(
    title="Intercom",
    config=IntercomConfig,
    secrets=((Secret("token", "Developer Hub, your app, Authentication, in Intercom"),),),
    help={
        "base_url": "another region: https://api.eu.intercom.io, https://api.au.intercom.io",
        "api_version": "of Intercom's API",
        "locales": "only these; all that are published otherwise",
        "help_center_ids": "only articles of these help centers",
        "include_loose_articles": "articles of no collection as well",
        "requests_per_minute": "no more than these",
    },
)
