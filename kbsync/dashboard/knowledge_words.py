"""How sources, documents and crawls are put into words: what happened, and what helps. Pure.

Errors are sentences already (LS-07); here each gets its cure, and a look of `parts.state`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

from kbsync.dashboard.audience_words import NOT_SAID, NOT_SAID_CURE
from kbsync.dashboard.setting_words import SETTINGS
from kbsync.dashboard.words import ago, count, duration, moment_text, percent, plain_number
from kbsync.domain.audience import AudienceKind
from kbsync.domain.ids import url_digest
from kbsync.domain.schedule import DAILY_SCAN
from kbsync.library.crawl_views import CrawlLine, CrawlPage
from kbsync.library.document_pages import DocumentPage
from kbsync.library.source_pages import COUNTED_TO, DocumentLine, SourceCounts, SourceLine

PROVIDERS: Mapping[str, str] = {
    "website": "Website",
    "files": "Files",
    "notion": "Notion",
    "confluence": "Confluence",
    "zendesk": "Zendesk Guide",
    "scribe": "Scribe",
    "intercom": "Intercom",
}
_AGAIN = "It is tried again with the next sync. When the cause is gone, sync it now."
# The first that fits an error's words.
_CURES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"\b401\b|credentials|the token|login|sign[ -]?in", re.IGNORECASE),
        "Give the source new credentials (kbsync source credentials), then sync it now.",
    ),
    (
        re.compile(r"\b403\b|forbidden", re.IGNORECASE),
        "Let kbsync’s user agent in, or give the source credentials that may read it. Then sync it now.",
    ),
    (
        re.compile(r"KBSYNC_FILES_ROOTS"),
        "Move the folder, or let an operator allow it in KBSYNC_FILES_ROOTS and restart the workers. Then sync it now.",
    ),
    (
        re.compile(r"not there|went away|neither a folder", re.IGNORECASE),
        "Put it back where the source says, or remove the source and add it anew. Then sync it now.",
    ),
    (
        re.compile(r"interrupted|every worker that took it stopped|time limit|took longer", re.IGNORECASE),
        "Nothing of it is running any more. Sync it now: it goes on from what is stored.",
    ),
    (
        re.compile(r"taken out of the queue|cancelled", re.IGNORECASE),
        "Somebody ended it on purpose. Sync it now to go on.",
    ),
    (
        re.compile(r"robots\.txt"),
        "Open robots.txt of the site: it has to answer, and to allow kbsync. Then sync it now.",
    ),
    (re.compile(r"\b(404|410)\b"), "Open the address: it may have moved. Add the source anew with the right one."),
    (
        re.compile(r"address|private|loopback|resolve|not allowed", re.IGNORECASE),
        "Check the address. One of your own network needs KBSYNC_FETCH_ALLOW_ADDRESSES.",
    ),
    (
        re.compile(r"set up wrongly|setting|can’t be synced here|can't be synced here"),
        "Add the source anew with the right settings.",
    ),
    (re.compile(r"quota", re.IGNORECASE), "It goes on by itself when the provider’s quota is there again."),
    (re.compile(r"inside kbsync"), "It is a fault of kbsync, not of the source. The log says more; " + _AGAIN.lower()),
)


@dataclass(frozen=True)
class Standing:
    """`look` is one of `parts.state`; `why` may hold words from outside, `cure` never does."""

    look: str
    word: str
    why: str = ""
    cure: str = ""


def provider_name(source_type: str) -> str:
    return PROVIDERS.get(source_type, source_type or "no provider")


def cure_of(error: str) -> str:
    """What helps against an error of a source."""
    return next((cure for pattern, cure in _CURES if pattern.search(error)), _AGAIN)


def sentence(text: str) -> str:
    """Words of an error as a sentence."""
    text = " ".join(text.split())
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?…" else ".")


def number_of(counts: Mapping[str, object], name: str) -> int | None:
    value = counts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def source_name(name: str, address: str) -> str:
    return name.strip() or address or "a source without a name"


def address_of(config: Mapping[str, object]) -> str:
    """Where the source is, without who logs in there."""
    for key in ("start_url", "path", "base_url"):
        value = config.get(key)
        if isinstance(value, str) and value:
            return without_login(value)
    return ""


def without_login(url: str) -> str:
    """An address without a user and password in it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url if "@" not in url else url.rsplit("@", 1)[1]
    return urlunsplit(parts._replace(netloc=parts.netloc.rsplit("@", 1)[-1])) if "@" in parts.netloc else url


def shown_settings(source_type: str, config: Mapping[str, object]) -> tuple[list[tuple[str, list[str]]], int]:
    """(what, values) of the settings that people may see, and how many others there are."""
    known = SETTINGS.get(source_type, ())
    shown = [(label, _texts(config[key])) for key, label in known if config.get(key) not in (None, "", [], ())]
    return shown, sum(1 for key in config if key not in {name for name, _ in known})


def _texts(value: object) -> list[str]:
    if isinstance(value, bool):
        return ["on" if value else "off"]
    if isinstance(value, float):
        return [f"{value:,g}"]
    if isinstance(value, Mapping):
        value = [f"{key}: {inner}" for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [without_login(str(each)) for each in value[:20]] + (["…"] if len(value) > 20 else [])
    return [plain_number(value) if isinstance(value, int) else without_login(str(value))]


def standing_of(source: SourceLine, now: datetime) -> Standing:
    """How a source stands, in words: `synced 12 min ago`, `syncing, about 41%`, `failed 3 min ago` with why and the cure."""
    error = source.sync_error or ""
    match source.sync_status:
        case "pending":
            return Standing("pending", "pending", "No sync has run yet.")
        case "syncing":
            done = _crawled(source)
            if error:
                return Standing("delayed", "syncing, waits", sentence(error), "It goes on by itself.")
            if done is not None:
                return Standing("syncing", f"syncing, about {done}%")
            since = source.sync_started_at
            return Standing("syncing", f"syncing for {duration((now - since).total_seconds())}" if since else "syncing")
        case "synced":
            return Standing("synced", f"synced {_ago(source.last_synced_at, now)}", "; ".join(_remarks(source.counts)))
        case "failed":
            when = f" {_ago(source.sync_error_at, now)}" if source.sync_error_at else ""
            return Standing("failed", f"failed{when}", sentence(error) or "No reason was kept.", cure_of(error))
        case other:
            return Standing("waiting", other)


def _crawled(source: SourceLine) -> int | None:
    """Percent of the URLs that a crawl found so far: an estimate, as each page may name new ones. 100 only at the end."""
    if not source.crawl_id or not source.crawl_found:
        return None
    return min(99, percent(source.crawl_found - (source.crawl_pending or 0), source.crawl_found))


def _remarks(counts: Mapping[str, object]) -> list[str]:
    said = []
    if unreadable := number_of(counts, "unreadable"):
        said.append(f"{plain_number(unreadable)} unreadable")
    if counts.get("incomplete"):
        said.append("not proven complete, so nothing was removed")
    return said


def _ago(value: datetime | None, now: datetime) -> str:
    return str(ago(value, now).striptags()) if value else ""


@dataclass(frozen=True)
class HeldRemoval:
    """A removal that waits, as the run stored it (LS-09); numbers of a row that somebody else wrote are 0."""

    run: int
    count: int
    of: int
    titles: list[str]
    since: datetime | None
    why: str

    @classmethod
    def of_source(cls, stored: Mapping[str, object] | None) -> HeldRemoval | None:
        if stored is None:
            return None
        titles = stored.get("titles")
        try:
            since = datetime.fromisoformat(str(stored.get("since")))
        except ValueError:
            since = None
        return cls(
            run=number_of(stored, "run") or 0,
            count=number_of(stored, "count") or 0,
            of=number_of(stored, "of") or 0,
            titles=[str(title) for title in titles] if isinstance(titles, list) else [],
            since=since if since is not None and since.tzinfo is not None else None,
            why=str(stored.get("why") or "many would go at once").rstrip("."),
        )


def next_due(source: SourceLine, now: datetime) -> datetime | None:
    """When the daily scan or its own interval asks for it; None when neither does, as with a disabled one."""
    if source.disabled_at is not None:
        return None
    wanted = source.daily_tick is True if source.type == "intercom" else source.daily_tick is not False
    tick = DAILY_SCAN.next_due(now) if wanted else None
    if source.sync_every_s is None or source.interval_asked_at is None:
        return tick
    own = source.interval_asked_at + timedelta(seconds=source.sync_every_s)
    return own if tick is None else min(tick, own)


def verdict_of(counts: SourceCounts) -> str:
    """The sentence over the list of sources."""
    if not counts.total:
        return "There is no source yet."
    said = []
    if counts.failed:
        said.append(f"{_many(counts.failed, 'source')} failed and {'needs' if counts.failed == 1 else 'need'} a person")
    if counts.held:
        said.append(f"{_many(counts.held, 'removal')} {'waits' if counts.held == 1 else 'wait'} for an approval")
    if not said:
        rest = f", {_many(counts.syncing, 'source')} syncing" if counts.syncing else ""
        return (
            f"Every source is in order{rest}."
            if not counts.pending
            else f"Nothing failed{rest}; {_many(counts.pending, 'source')} never synced yet."
        )
    return "; ".join(said) + "."


def crawls_verdict(live: int) -> str:
    """The sentence over the list of crawls."""
    return f"{_many(live, 'crawl')} {'is' if live == 1 else 'are'} under way." if live else "No crawl is under way."


def _many(number: int, one: str) -> str:
    return f"more than {count(COUNTED_TO, one)}" if number > COUNTED_TO else count(number, one)


def document_standing(line: DocumentLine | DocumentPage) -> Standing:
    """How a document stands: searchable, waits for its chunks, unreadable with the reason."""
    if isinstance(line, DocumentPage) and line.discarded_at is not None:
        return Standing("gone", "removed", "It is no longer found at its source. Its text and chunks went with it.")
    has_content = bool(line.bytes) if isinstance(line, DocumentPage) else line.has_content
    if line.unreadable_reason is not None:
        kept = "What was read before is kept." if has_content else "Nothing of it was read yet."
        return Standing("failed", "unreadable", sentence(line.unreadable_reason), kept)
    if not has_content:
        if line.last_synced_at is None:
            return Standing("pending", "pending", "Its text has not been read yet.")
        return Standing("unchanged", "empty", "It has no text.")
    if line.audience.kind is AudienceKind.UNKNOWN:
        return Standing("unchanged", "found by nobody", NOT_SAID, NOT_SAID_CURE)
    if line.chunks_synced_at is None:
        return Standing("delayed", "waits for chunks", "Its text is stored; it is searchable when its chunks are.")
    return Standing("synced", "searchable")


def short_url(url: str, beside: str) -> str:
    """A URL as a path, where it is on the host of `beside`."""
    try:
        own, other = urlsplit(url), urlsplit(beside)
        if (own.scheme, own.netloc) == (other.scheme, other.netloc):
            return urlunsplit(("", "", own.path or "/", own.query, own.fragment))
    except ValueError:
        pass
    return url


def key_of(url: str) -> str:
    """The ledger's key of a URL, by which the tree is entered."""
    return url_digest(url)


def host_of(url: str) -> str:
    try:
        return urlsplit(url).netloc.rsplit("@", 1)[-1] or url
    except ValueError:
        return url


CRAWL_LOOKS = {"pending": "pending", "running": "active", "completed": "completed", "failed": "failed"}


@dataclass(frozen=True)
class Pace:
    """How fast a crawl goes: URLs a minute since its start, and about how long what is found takes still."""

    finished: int
    a_minute: float | None
    left_s: float | None


def pace_of(crawl: CrawlLine, now: datetime) -> Pace:
    """None each before a crawl has run for five seconds or finished a URL; `left_s` of a running one only."""
    finished = crawl.urls_found - crawl.urls_pending
    if crawl.started_at is None:
        return Pace(finished, None, None)
    ran = ((crawl.finished_at or now) - crawl.started_at).total_seconds()
    if finished < 1 or (crawl.finished_at is None and ran < 5) or ran <= 0:
        return Pace(finished, None, None)
    a_minute = 60 * finished / ran
    running = crawl.status == "running" and crawl.urls_pending > 0
    return Pace(finished, a_minute, 60 * crawl.urls_pending / a_minute if running else None)


def crawl_verdict(crawl: CrawlPage, now: datetime) -> str:
    """One sentence: how far, how fast, until when; or how it ended and what that means."""
    pace, failed = pace_of(crawl, now), crawl.outcomes.get("failed", 0)
    of = f"{plain_number(pace.finished)} of {count(crawl.urls_found, 'URL')} finished"
    match crawl.status:
        case "pending":
            return "It has not begun: robots.txt and the sitemaps come first."
        case "running":
            rest = f", {count(failed, 'URL')} failed" if failed else ""
            until = f" If nothing more is found, it ends in about {duration(pace.left_s)}." if pace.left_s else ""
            return f"{of}{rest}.{until}"
        case "failed":
            return sentence(crawl.error or "It could not start") + " " + cure_of(crawl.error or "")
        case _:
            took = (
                duration((crawl.finished_at - crawl.started_at).total_seconds())
                if crawl.finished_at and crawl.started_at
                else ""
            )
            ended = f"{of} in {took}." if took else f"{of}."
            if crawl.incomplete_reasons:
                return f"{ended} It proves no absence, so nothing was removed: {'; '.join(crawl.incomplete_reasons)}."
            return f"{ended} It was complete: what it did not find was removed, or waits for a second look."


_OUTCOME_WORDS = {
    "stored": "stored",
    "unchanged": "unchanged",
    "gone": "gone",
    "refused": "left alone",
    "duplicate": "same page",
    "failed": "failed",
}


def outcome_word(outcome: str | None) -> str:
    return "pending" if outcome is None else _OUTCOME_WORDS.get(outcome, outcome)


def estimate_text(pace: Pace, now: datetime) -> tuple[str, str] | None:
    """The moment at which a crawl ends, and how long until then; None when that is not known."""
    if pace.left_s is None:
        return None
    end = now + timedelta(seconds=pace.left_s)
    clock = f"{end:%H:%M}" if end.date() == now.date() else moment_text(end, now)
    return clock, f"in about {duration(pace.left_s)}"
