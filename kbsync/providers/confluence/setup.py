"""What a person is asked for a Confluence site."""

from __future__ import annotations

from kbsync.providers.confluence.config import ConfluenceConfig
from kbsync.providers.declaration import Declaration, Secret

SETUP = Declaration(
    title="Confluence",
    config=ConfluenceConfig,
    secrets=(
        (Secret("email", "of the account (cloud)"), Secret("api_token", "its API token (cloud)")),
        (Secret("access_token", "an OAuth access token (cloud)"),),
        (Secret("token", "a personal access token (Data Center)"),),
        (Secret("username", "of the account (Data Center)"), Secret("password", "its password (Data Center)")),
    ),
    help={
        "deployment": "cloud or data_center",
        "base_url": "https://acme.atlassian.net, or a Data Center's address with its context path",
        "cloud_id": "the site's id, for tokens with scopes",
        "space_keys": "only these spaces",
        "space_audience": "who may find what carries no restriction: ask, members or public",
    },
    where="base_url",
)
