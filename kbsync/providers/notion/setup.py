"""What a person is asked for a Notion workspace."""

from __future__ import annotations

from kbsync.providers.declaration import Declaration, Secret
from kbsync.providers.notion.config import NotionConfig

SETUP = Declaration(
    title="Notion",
    config=NotionConfig,
    secrets=((Secret("token", "of a connection: Settings, Connections, in Notion"),),),
    help={
        "root_page_ids": "pages or databases to walk whatever the search shows, as ids or addresses",
        "api_version": "of Notion's API",
        "reread_after_days": "a page is read again then though its time stands still; 0: never",
    },
)
