"""What a person is asked for a website."""

from __future__ import annotations

from kbsync.providers.declaration import Declaration, Secret
from kbsync.providers.website.config import WebsiteConfig

SETUP = Declaration(
    title="Website",
    config=WebsiteConfig,
    secrets=(
        (Secret("username", "of a site behind basic authentication"), Secret("password", "that belongs to it")),
        (Secret("header_Authorization", "the value of a header that lets in; header_<Name> for another one"),),
    ),
    secrets_are_optional=True,
    help={
        "start_url": "where the crawl begins",
        "hosts": "other hosts that belong to it",
        "include_paths": "only URLs below these paths",
        "exclude_paths": "nothing below these paths",
        "max_urls": "a crawl ends there",
        "max_depth": "links from the start page",
        "use_sitemaps": "whether sitemaps are read",
    },
    where="start_url",
    include="include_paths",
    exclude="exclude_paths",
)
