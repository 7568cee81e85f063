"""What each element of the storage format is to a reader, as HTML of plain elements. Pure.

Nothing is fetched here: includes become links, people and addresses come from the `PageContext`. An element that is not
known keeps what stands in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from urllib.parse import quote, quote_plus

from kbsync.providers.confluence.storage import Frame, Resource, text_of
from kbsync.providers.confluence.tables import LINE, Cell, cell_of, table_of

# The Markdown converter keeps links of the web only: this stands for `kbsync-asset:` until it has run.
ASSET_HOST = "https://asset.kbsync.invalid/"
MAX_OPAQUE = 20_000  # characters of an unknown macro's plain body that are taken for text

_PANELS = {"info": "Info", "note": "Note", "warning": "Warning", "tip": "Tip", "panel": ""}
_NOTHING = frozenset({
    "toc", "toc-zone-marker", "children", "pagetree", "pagetreesearch", "recently-updated", "livesearch", "anchor",
    "contentbylabel", "detailssummary", "blog-posts", "space-details", "listlabels", "popular-labels",
    "recently-updated-dashboard", "contributors", "change-history",
})  # fmt: skip
_FILES = frozenset({
    "view-file", "viewpdf", "viewdoc", "viewxls", "viewppt", "attachments", "gallery", "multimedia",
})  # fmt: skip
_DROPPED = frozenset({
    "ac:placeholder", "ac:task-id", "ac:task-uuid", "ac:default-parameter", "ac:adf-attribute", "ac:adf-mark",
    "ac:adf-leaf", "at:declarations", "at:i18n", "at:var",
})  # fmt: skip
_EMOTICONS = {
    "smile": "🙂", "sad": "🙁", "cheeky": "😛", "laugh": "😀", "wink": "😉", "thumbs-up": "👍", "thumbs-down": "👎",
    "information": "ℹ️", "tick": "✅", "cross": "❌", "warning": "⚠️", "plus": "➕", "minus": "➖", "question": "❓",
    "light-on": "💡", "light-off": "💡", "yellow-star": "⭐", "red-star": "⭐", "green-star": "⭐", "blue-star": "⭐",
    "heart": "❤️", "broken-heart": "💔",
}  # fmt: skip
_LANGUAGES = {"html/xml": "xml", "c#": "csharp", "c++": "cpp", "visual basic": "vb", "plain text": "", "plain": ""}
_OWN = re.compile("\ue000(\\d{1,6})\ue001")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,30}")


@dataclass(frozen=True)
class PageContext:
    """`site` is the address that people see, with its context path. `names`: people by account id or user key."""

    site: str
    space_key: str | None
    names: Mapping[str, str] = field(default_factory=dict)

    def place_of(self, resource: Resource) -> str | None:
        """The address of a page, post, space or address; None where it can't be told."""
        key = resource.get("space-key") or self.space_key
        title = resource.get("content-title")
        match resource.kind:
            case "url":
                value = resource.get("value")
                return value if value.startswith(("http://", "https://", "mailto:", "/")) else None
            case "content-entity":
                return f"{self.site}/pages/viewpage.action?pageId={quote(resource.get('content-id'), safe='')}"
            case "space":
                return f"{self.site}/display/{quote(key or '', safe='~')}" if key else None
            case "blog-post" if key and title:
                day = quote(resource.get("posting-day"), safe="/")
                return f"{self.site}/display/{quote(key, safe='~')}/{day}/{quote_plus(title)}"
            case "page" if key and title:
                return f"{self.site}/display/{quote(key, safe='~')}/{quote_plus(title)}"
        return None


def attachment_name(filename: str) -> str:
    """A file's lasting name within its page (LS-25): versions and signatures change its address, never this."""
    return hashlib.sha256(filename.encode("utf-8", "replace")).hexdigest()[:24]


@dataclass
class Reader:
    """Ends elements for one page. `verbatim` is Markdown that the converter must not see; `opaque` what was left out."""

    page: PageContext
    verbatim: list[str] = field(default_factory=list)
    opaque: int = 0

    def end(self, frame: Frame, around: Frame) -> None:
        name = frame.name
        if name in _DROPPED:
            return
        if name.startswith("ri:"):
            around.resources.append(Resource(name[3:], frame.attributes, tuple(frame.resources)))
        elif (ending := _ENDINGS.get(name)) is not None:
            ending(self, frame, around)
        else:
            around.out.append(frame.html)

    # --- links and pictures ---

    def link(self, frame: Frame, around: Frame) -> None:
        resource = next(iter(frame.resources), None)
        label = frame.notes.get("ac:link-body") or frame.notes.get("ac:plain-text-link-body", "")
        if not label.strip():
            label = escape(self._label(resource)) or frame.html
        around.out.append(_linked(label, self._target(resource)))

    def image(self, frame: Frame, around: Frame) -> None:
        resource = next(iter(frame.resources), None)
        caption = frame.notes.get("ac:caption", "")
        alt = frame.attributes.get("ac:alt") or frame.attributes.get("ac:title", "")
        if not alt and resource is not None and resource.kind != "url":
            alt = self._label(resource)
        target = self._target(resource)
        if resource is not None and resource.kind == "attachment" and resource.inner:
            picture = _linked(escape(alt), target)  # a file of another page is found there
        else:
            picture = f'<img src="{escape(target)}" alt="{escape(alt)}">' if target else escape(alt)
        around.out.append(f"{picture}<br>{caption}" if caption.strip() else picture)

    def _target(self, resource: Resource | None) -> str | None:
        if resource is None:
            return None
        if resource.kind == "attachment":
            if resource.inner:
                return self.page.place_of(resource.inner[0])
            filename = resource.get("filename")
            return ASSET_HOST + attachment_name(filename) if filename else None
        return self.page.place_of(resource)

    def _label(self, resource: Resource | None) -> str:
        if resource is None:
            return ""
        match resource.kind:
            case "user":
                known = (self.page.names.get(resource.get(one)) for one in ("account-id", "userkey", "username"))
                return "@" + (next((name for name in known if name), "") or resource.get("username") or "user")
            case "attachment":
                return resource.get("filename")
            case "space":
                return resource.get("space-key")
            case "shortcut":
                return resource.get("parameter") or resource.get("key")
            case "url":
                return resource.get("value")
        return resource.get("content-title") or resource.get("content-id")

    # --- macros ---

    def macro(self, frame: Frame, around: Frame) -> None:
        around.out.append(self._macro(frame.attributes.get("ac:name", "").strip(), frame))

    def _macro(self, name: str, frame: Frame) -> str:
        rich, plain = frame.notes.get("ac:rich-text-body"), frame.notes.get("ac:plain-text-body")
        title = frame.parameter("title")
        if name in _NOTHING:
            return ""
        if name in ("code", "noformat") and plain is not None:
            return _titled(title) + _code(plain, frame.parameter("language") if name == "code" else "")
        if name == "markdown" and plain is not None:
            return self._verbatim(plain)
        if name in _PANELS:
            label = ": ".join(part for part in (_PANELS[name], title) if part)
            return f"<blockquote>{_titled(label)}{_block(rich or _code(plain or '', ''))}</blockquote>"
        if name == "status":
            return escape(title)
        if name in ("include", "excerpt-include"):
            return _block(frame.parameters.get("") or frame.parameters.get("default-parameter", ""))
        if name == "jira":
            key, query = frame.parameter("key"), frame.parameter("jqlQuery") or frame.parameter("jql")
            return escape(key or (f"Jira: {query}" if query else ""))
        if name in _FILES or (rich is None and plain is None):
            return self._pointer(frame, title)
        if rich is not None:
            return _titled(title) + _block(rich)
        return self._opaque(plain or "", title)

    def _pointer(self, frame: Frame, title: str) -> str:
        """A macro without a body: the file, person or address that it shows, else the words it was given."""
        for resource in frame.resources:
            label = self._label(resource)
            if label:
                return _linked(escape(label), self._target(resource))
        address = frame.parameter("url") or frame.parameter("src")
        if address.startswith(("http://", "https://")):
            return _linked(escape(title or address), address)
        words = (title or frame.parameter(one) for one in ("title", "label", "text", "name"))
        return escape(next((word for word in words if word), ""))

    def _opaque(self, plain: str, title: str) -> str:
        if len(plain) <= MAX_OPAQUE:
            return _titled(title) + _code(plain, "")
        self.opaque += 1
        return _titled(title)

    def _verbatim(self, escaped: str) -> str:
        self.verbatim.append(text_as_typed(escaped))
        return f"<p>\ue000{len(self.verbatim) - 1}\ue001</p>"

    def own_markdown(self, number: str) -> str:
        """What a mark stands for; nothing, for one that is not ours but an author's character references."""
        index = int(number)
        return self.verbatim[index] if index < len(self.verbatim) else ""

    # --- the rest ---

    def parameter(self, frame: Frame, around: Frame) -> None:
        around.parameters.setdefault(frame.attributes.get("ac:name", ""), frame.html)
        around.resources.extend(frame.resources)

    def note(self, frame: Frame, around: Frame) -> None:
        """A part that its parent places. Bodies of one name in a row are one body."""
        around.notes[frame.name] = around.notes.get(frame.name, "") + frame.html
        if frame.name == "ac:plain-text-link-body":
            around.notes[frame.name] = around.notes[frame.name].strip()

    def fallback(self, frame: Frame, around: Frame) -> None:
        around.notes["ac:adf-fallback"] = frame.html

    def extension(self, frame: Frame, around: Frame) -> None:
        around.out.append(frame.notes.get("ac:adf-fallback") or frame.html)

    def emoticon(self, frame: Frame, around: Frame) -> None:
        shown = frame.attributes.get("ac:emoji-fallback") or ""
        name = frame.attributes.get("ac:name", "")
        around.out.append(escape(shown or _EMOTICONS.get(name) or (f":{name}:" if name else "")))

    def task(self, frame: Frame, around: Frame) -> None:
        done = text_of(frame.notes.get("ac:task-status", "")) == "complete"
        around.out.append(f"<li>[{'x' if done else ' '}] {frame.notes.get('ac:task-body', '').strip()}</li>")

    def tasks(self, frame: Frame, around: Frame) -> None:
        around.out.append(f"<ul>{frame.html}</ul>")

    def block(self, frame: Frame, around: Frame) -> None:
        around.out.append(_block(frame.html))

    def pre(self, frame: Frame, around: Frame) -> None:
        around.out.append(_code(escape(text_as_typed(frame.html.replace("<br>", "\n")), quote=False), ""))

    # --- tables ---

    def table(self, frame: Frame, around: Frame) -> None:
        rows = [row for row in frame.rows if isinstance(row, list)]
        around.out.append(frame.html + table_of(rows))

    def row(self, frame: Frame, around: Frame) -> None:
        around.rows.append([cell for cell in frame.rows if isinstance(cell, Cell)])
        around.out.append(frame.html.strip())

    def cell(self, frame: Frame, around: Frame) -> None:
        # A cell has one line: Markdown of its own would end the table.
        html = _OWN.sub(lambda found: escape(self.own_markdown(found[1]).strip()).replace("\n", LINE), frame.html)
        around.rows.append(cell_of(html, frame.attributes, is_head=frame.name == "th"))


_ENDINGS: Mapping[str, Callable[[Reader, Frame, Frame], None]] = {
    "ac:structured-macro": Reader.macro,
    "ac:macro": Reader.macro,
    "ac:parameter": Reader.parameter,
    "ac:rich-text-body": Reader.note,
    "ac:plain-text-body": Reader.note,
    "ac:link-body": Reader.note,
    "ac:plain-text-link-body": Reader.note,
    "ac:caption": Reader.note,
    "ac:task-status": Reader.note,
    "ac:task-body": Reader.note,
    "ac:link": Reader.link,
    "ac:image": Reader.image,
    "ac:emoticon": Reader.emoticon,
    "ac:task": Reader.task,
    "ac:task-list": Reader.tasks,
    "ac:adf-extension": Reader.extension,
    "ac:adf-fallback": Reader.fallback,
    "ac:layout": Reader.block,
    "ac:layout-section": Reader.block,
    "ac:layout-cell": Reader.block,
    "table": Reader.table,
    "tr": Reader.row,
    "td": Reader.cell,
    "th": Reader.cell,
    "pre": Reader.pre,
}


def text_as_typed(html: str) -> str:
    return Frame("", {}, [html]).raw


def _code(escaped: str, language: str) -> str:
    named = _LANGUAGES.get(language.lower(), language.lower())
    mark = f' class="language-{escape(named)}"' if _LANGUAGE.fullmatch(named) else ""
    body = escape(text_as_typed(escaped), quote=False)
    return f"<pre><code{mark}>{body}</code></pre>" if body.strip() else ""


def _titled(title: str) -> str:
    return f"<p><strong>{escape(title)}</strong></p>" if title else ""


def _block(html: str) -> str:
    return f"<div>{html}</div>" if html.strip() else ""


def _linked(label: str, target: str | None) -> str:
    return f'<a href="{escape(target)}">{label}</a>' if target and label.strip() else label
