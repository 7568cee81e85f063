"""A job in words: what it is, what happened to it, and what helps. All pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kbsync.dashboard.words import at_ms, count, duration, moment_text, until
from kbsync.domain.retry import MAX_ATTEMPTS
from kbsync.domain.states import JobState
from kbsync.queue.views import JobDetail, JobView

KINDS: Mapping[str, str] = {
    "sync_source": "Sync a source",
    "sync_document": "Sync a document",
    "document_chunks": "Make a document’s chunks",
    "start_crawl": "Start a crawl",
    "crawl_url": "Crawl a URL",
    "scan": "Scan what is due",
}
# By the last part of an error's type: what happened, and what helps.
_CURES: Mapping[str, str] = {
    "CredentialsRefused": "Give the source a new token, then retry.",
    "ProviderRefused": "Trying again does not help by itself: change what the provider complains about, then retry.",
    "UnknownProvider": "Give the source a type that this version knows, then retry.",
    "AddressRefused": "Open the address in the settings, or correct the source, then retry.",
    "ItemGone": "The provider has it no more: remove the job.",
    "ItemUnreadable": "Open the item to the source’s token, then retry.",
    "TimedOut": "Retry it. When it takes too long again, its traceback says where the time goes.",
    "ProviderUnreachable": "When the provider answers again, retry.",
    "ProviderBusy": "When the provider takes requests again, retry.",
    "WaitedTooOften": "When the provider takes requests again, retry.",
    "FollowUpsNotEnqueued": "What it read is stored. When Redis takes jobs again, retry to ask for its follow-ups.",
    "PayloadRefused": "Trying again does not help: remove it, and let what it stands for be asked for anew.",
    "payload_refused": "Trying again does not help: remove it, and let what it stands for be asked for anew.",
    "UnknownRequestVersion": "It was made for another version: bring the workers up to it, then retry.",
    "stalled_too_often": "Its worker died under it each time: look at the workers’ memory before you retry.",
}
_AFTER_ATTEMPT = re.compile(r"^attempt (\d+) failed: ([\w.]+)$")
_CAUSE = re.compile(r"^caused by (\w+):", re.MULTILINE)
_OTHERWISE = "Retry it. When it fails the same way again, its traceback says where."

_SKIPPED: Mapping[str, str] = {
    "paused": "the kill switch was on for its organization. Retry it when the switch is off",
    "session_token_only": "its source has a token of a person’s session, which only that person’s syncs may use",
}


def kind_words(kind: str) -> str:
    """`Sync a document`; a kind of somebody else's as it is."""
    return KINDS.get(kind, kind[:100] or "Unreadable job")


def short_reason(reason: str) -> str:
    """Why a job waits, for people: of `attempt 1 failed: a.b.C` the last part."""
    return _AFTER_ATTEMPT.sub(lambda found: f"attempt {found[1]} failed: {short_type(found[2])}", reason)


def short_type(name: object) -> str:
    """`kbsync.domain.errors.ProviderBusy` as `ProviderBusy`."""
    return str(name or "").rsplit(".", 1)[-1][:100]


def why_of(view: JobView) -> tuple[str, str]:
    """Why a failed job failed, for a row: the message (or type), and the type beneath it."""
    if not view.readable:
        return "Its record can’t be read", ""
    error = view.error or {}
    message, name = str(error.get("message") or "")[:300], short_type(error.get("type"))
    return (message, name) if message else (name, "")


def cure_of(error: Mapping[str, Any]) -> str:
    """What helps, by the error's type, or by its cause's when the type only says that trying again is useless."""
    names = [short_type(error.get("type")), *_CAUSE.findall(str(error.get("traceback") or ""))[-1:]]
    return next((_CURES[name] for name in names if name in _CURES), _OTHERWISE)


def sentence_of(detail: JobDetail, now: datetime, *, paused: bool, served: bool) -> str:
    """What happened and what helps, in at most three short sentences. May hold text from outside."""
    view = detail.view
    if not view.readable:
        return "Its bytes can’t be read as a job of any version. Nothing can run it; it can be removed."
    match view.state:
        case JobState.WAITING:
            return _waiting(view, now, paused=paused, served=served)
        case JobState.DELAYED:
            due = at_ms(view.until_ms or 0)
            why = f": {_stop(short_reason(view.reason[:300]))}" if view.reason else "."
            return f"It goes on by itself at {moment_text(due, now)} ({until(due, now)}){why}"
        case JobState.ACTIVE:
            return _active(detail, now)
        case JobState.COMPLETED:
            return _completed(detail)
        case JobState.SKIPPED:
            reason = str((detail.result or {}).get("reason", "") if isinstance(detail.result, dict) else "")
            return f"It was left out on purpose: {_stop(_SKIPPED.get(reason, reason[:300] or 'no reason is kept'))}"
        case JobState.CANCELLED:
            return "Somebody cancelled it before it was done. Retry it when it is wanted after all."
        case JobState.FAILED:
            return _failed(view)


def _stop(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else text + "."


def _waiting(view: JobView, now: datetime, *, paused: bool, served: bool) -> str:
    since = (now - at_ms(view.enqueued_ms)).total_seconds()
    head = f"It has been in line for {duration(since)}."
    if paused:
        return f"{head} The queue is paused: it hands out nothing until somebody resumes it."
    if not served:
        return f"{head} No worker serves its queue: start one, and it goes on."
    if view.attempts:
        return f"{head} Attempt {view.attempts + 1} of {MAX_ATTEMPTS} comes next, when its turn comes."
    return f"{head} It runs when its turn comes."


def _active(detail: JobDetail, now: datetime) -> str:
    view = detail.view
    head = f"It runs now, attempt {view.attempts + 1} of {MAX_ATTEMPTS}."
    if detail.stop_asked:
        return f"{head} Somebody asked it to stop."
    left = (at_ms(view.lease_ends_ms or 0) - now).total_seconds()
    if left < 0:
        return f"{head} Its worker is silent: another one takes it over as soon as it looks."
    if detail.rerun_pending:
        return f"{head} It was asked for again meanwhile, so it runs once more afterwards."
    return head


def _completed(detail: JobDetail) -> str:
    result = detail.result if isinstance(detail.result, dict) else {}
    if result.get("status") == "record-missing":
        return "It ended without work: what it was asked for is no longer there."
    return "It ended well."


def _failed(view: JobView) -> str:
    error = view.error or {}
    message, name = str(error.get("message") or "").strip()[:300], short_type(error.get("type"))
    what = _stop(message or name or "No reason is kept")
    tried = f" It ended after {view.attempts} of {MAX_ATTEMPTS} attempts." if 0 < view.attempts < MAX_ATTEMPTS else ""
    if view.attempts >= MAX_ATTEMPTS:
        tried = f" {count(view.attempts, 'attempt')} failed."
    return f"{what}{tried} {cure_of(error)}"
