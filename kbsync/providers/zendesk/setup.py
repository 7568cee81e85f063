"""What a person is asked for a Zendesk account."""

from __future__ import annotations

from kbsync.providers.declaration import Declaration, Secret
from kbsync.providers.zendesk.config import ZendeskConfig

SETUP = Declaration(
    title="Zendesk",
    config=ZendeskConfig,
    secrets=(
        (
            Secret("email", "of an agent", is_open=True),
            Secret("api_token", "Admin Center, Apps and integrations, APIs"),
        ),
        (Secret("oauth_token", "with the scope hc:read"),),
    ),
    help={
        "base_url": "for example https://acme.zendesk.com",
        "brands": "subdomains; every brand with a help center otherwise",
        "locales": "only these; all that are published otherwise",
        "brand_urls": "subdomain=address of a brand that is reached by another one",
        "requests_per_minute": "no more than these",
    },
    where="base_url",
)
