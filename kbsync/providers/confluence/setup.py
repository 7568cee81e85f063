"""What a person is asked for a Confluence site."""

from __future__ import annotations

from kbsync.providers.confluence.config import ConfluenceConfig
from kbsync.providers.declaration import Declaration, Secret

CLOUD, DATA_CENTER = ("deployment", "cloud"), ("deployment", "data_center")

SETUP = Declaration(
    title="Confluence",
    config=ConfluenceConfig,
    secrets=(
        (
            Secret("email", "of the account (cloud)", CLOUD, is_open=True),
            Secret("api_token", "its API token (cloud)", CLOUD),
        ),
        (Secret("access_token", "an OAuth access token (cloud)", CLOUD),),
        (Secret("token", "a personal access token (Data Center)", DATA_CENTER),),
        (
            Secret("username", "of the account (Data Center)", DATA_CENTER, is_open=True),
            Secret("password", "its password (Data Center)", DATA_CENTER),
        ),
    ),
    help={
        "deployment": "cloud at Atlassian, or data_center of your own",
        "base_url": "for example https://acme.atlassian.net, or a Data Center's address with its context path",
        "cloud_id": "the site's id, for tokens with scopes",
        "gateway_url": "where a token with scopes is taken",
        "space_keys": "only these spaces; a personal one is read when it is named",
        "include_personal_spaces": "personal spaces as well",
        "include_archived_spaces": "archived spaces as well",
        "include_blog_posts": "blog posts as well",
        "space_audience": "who may find what carries no restriction; ask: as the spaces' permissions say",
        "members_groups": "groups that stand for everybody with an account",
        "single_calls": "restrictions and places of a run asked for one by one at most",
        "requests_per_minute": "no more than these",
    },
    where="base_url",
    asked=("deployment",),
)
