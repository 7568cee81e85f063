"""What a person is asked for a Notion workspace."""

from __future__ import annotations

from kbsync.providers.declaration import Declaration, Secret
from kbsync.providers.notion.config import NotionConfig

SETUP = Declaration(
    title="Notion",
    config=NotionConfig,
    secrets=((Secret("token", "of an internal connection: Settings, Connections, in Notion"),),),
    help={
        "base_url": "of Notion's API",
        "root_page_ids": "pages or databases to walk whatever the search shows, as ids or addresses",
        "api_version": "of Notion's API",
        "requests_per_second": "no more than these",
        "walk_requests": "what a listing spends on walking through pages that the search does not show",
        "page_requests": "what one page may cost",
        "reread_after_days": "a page is read again then though its time stands still; 0: never",
    },
)
