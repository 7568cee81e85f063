"""A Confluence page as Markdown: the storage format made plain, then the one way from HTML to Markdown. Pure.

Large pages belong into `asyncio.to_thread`."""

from __future__ import annotations

import re

from kbsync.providers.assets import addresses_by_name, with_lasting_names
from kbsync.providers.confluence.macros import ASSET_HOST, PageContext, Reader
from kbsync.providers.confluence.storage import plain_html
from kbsync.providers.confluence.tables import LINE
from kbsync.providers.contract import ASSET_SCHEME
from kbsync.providers.html import MAX_HTML, to_markdown

_OURS = re.compile("[\ue000-\ue002]")
_VERBATIM = re.compile("^([> \t*0-9.-]*)\ue000(\\d{1,6})\ue001|\ue000(\\d{1,6})\ue001", re.MULTILINE)
_MENTIONED = re.compile(r"ri:(account-id|userkey)=\"([^\"<>&\s]{1,200})\"")
_MAX_MENTIONED = 100


def render(storage: str, page: PageContext, *, url: str) -> str:
    """Markdown in which files are lasting assets; nothing of the storage format's own elements is left."""
    reader = Reader(page)
    html = plain_html(_OURS.sub("", storage[:MAX_HTML]), reader.end)
    markdown = to_markdown(html, base_url=url).markdown
    markdown = markdown.replace("](" + ASSET_HOST, "](" + ASSET_SCHEME).replace(LINE, "<br>")
    return _VERBATIM.sub(lambda found: _placed(found, reader), markdown)


def _placed(found: re.Match[str], reader: Reader) -> str:
    """An author's own Markdown where it stands: in a quote or an item each of its lines is one of the quote or item."""
    before = found[1] or ""
    below = "".join(one if one == ">" else " " for one in before)
    lines = reader.own_markdown(found[2] or found[3]).strip("\n").split("\n")
    return before + f"\n{below}".join(lines)


def render_view(html: str, *, url: str) -> str:
    """A page that Confluence gives in no other form than the one it shows; its files' addresses carry dates and tokens."""
    return with_lasting_names(_view(html, url), expires)


def files_of_view(html: str, *, url: str) -> dict[str, str]:
    return addresses_by_name(_view(html, url), expires)


def _view(html: str, url: str) -> str:
    return to_markdown(html, base_url=url).markdown


def expires(url: str) -> bool:
    return "/download/" in url or "token=" in url


def mentioned(storage: str) -> list[tuple[str, str]]:
    """The people that a page names: ("account-id" or "userkey", the id), each once, bounded."""
    found = dict.fromkeys((one[1], one[2]) for one in _MENTIONED.finditer(storage))
    return list(found)[:_MAX_MENTIONED]
