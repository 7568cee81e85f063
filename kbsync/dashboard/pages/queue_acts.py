"""What a person does to a queue, and to jobs that they name: pause, resume, limits, retry, promote, remove, cancel
(QU-13, QU-14, QU-19, QU-29). Each says before what it will do, and after what it did; each is audited."""

from __future__ import annotations

from kbsync.dashboard.acting import ACTIONS_OF, id_of, operator_of, queue_of, queue_path, said_of
from kbsync.dashboard.ask import Access, ActionRefused, Ask, Done
from kbsync.dashboard.page import Action as Post
from kbsync.domain.errors import SettingsError
from kbsync.queue.fleet import unavailable_if_redis_fails
from kbsync.queue.operators import Action, Report

_NO_RECORD = "no ended job that can be read"
_BY_HAND = frozenset(action for actions in ACTIONS_OF.values() for action in actions)


async def _pause(ask: Ask) -> Done:
    queue, why = queue_of(ask), ask.form.get("why", "").strip()[:200]
    back = queue_path(queue.name)
    if not why:
        raise ActionRefused("Pausing takes a reason: whoever finds the queue paused reads it.", back)
    async with unavailable_if_redis_fails(queue.name):
        changed = await operator_of(ask, queue, why).pause()
    said = f"{queue.name} is paused: it hands out nothing until somebody resumes it."
    return Done(said if changed else f"{queue.name} was paused already.", back)


async def _resume(ask: Ask) -> Done:
    queue = queue_of(ask)
    async with unavailable_if_redis_fails(queue.name):
        changed = await operator_of(ask, queue).resume()
    said = f"{queue.name} hands out jobs again." if changed else f"{queue.name} was not paused."
    return Done(said, queue_path(queue.name))


async def _limits(ask: Ask) -> Done:
    queue = queue_of(ask)
    back = queue_path(queue.name)
    most, limit = _whole(ask, "max_active", back), _whole(ask, "limit", back)
    window_ms = _window_ms(ask, back) if limit is not None else 60_000
    try:
        async with unavailable_if_redis_fails(queue.name):
            operator = operator_of(ask, queue)
            now = await operator.limits()
            changed = most != now.max_active and await operator.set_max_active(most)
            if (limit, window_ms if limit is not None else None) != (now.limit, now.window_ms):
                changed = await operator.set_limiter(limit, window_ms) or changed
    except SettingsError as error:
        raise ActionRefused(f"{error}.", back) from error
    at_once = "any number" if most is None else f"{most:,}"
    handed = "" if limit is None else f", {limit:,} handed out each {window_ms / 1000:g} s"
    return Done(f"{queue.name}: {at_once} at once{handed}." if changed else "Nothing was changed.", back)


def _whole(ask: Ask, name: str, back: str) -> int | None:
    text = ask.form.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise ActionRefused(f"{text[:40]!r} is no whole number. Nothing was changed.", back)
    return int(text)


def _window_ms(ask: Ask, back: str) -> int:
    text = ask.form.get("window_s", "").strip() or "60"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0.001 <= seconds <= 86_400:
        raise ActionRefused("A window is between 0.001 and 86,400 seconds long. Nothing was changed.", back)
    return int(seconds * 1000)


async def _jobs(ask: Ask) -> Done:
    """`do` to the jobs that were ticked, or to the one of a job's page. Twice changes nothing more."""
    queue = queue_of(ask)
    back, do = ask.form.get("back", queue_path(queue.name)), ask.form.get("do", "")
    if do not in _BY_HAND:
        raise ActionRefused(f"There is no action {do[:40]!r}. Nothing was done.", back)
    job_ids = list(dict.fromkeys(id_of(key) for key in ask.picked))
    if not job_ids:
        raise ActionRefused("No job was ticked. Nothing was done.", back)
    async with unavailable_if_redis_fails(queue.name):
        report = await operator_of(ask, queue).act(Action(do), job_ids)
        await _tell_waiting_from_gone(ask, report)
    if not report.done:
        raise ActionRefused(said_of(report), back)
    return Done(said_of(report), back)


async def _tell_waiting_from_gone(ask: Ask, report: Report) -> None:
    """A retry finds no ended job where one waits again already: whoever clicks twice is told so."""
    unread = [job_id for job_id, why in report.examples if why == _NO_RECORD]
    live = await ask.services.fleet.live_job_ids(unread) if unread else set()
    if live:
        report.refused[_NO_RECORD] -= len(live)
        report.refused["in the queue already"] += len(live)
        report.refused = +report.refused  # without zeros


ACTIONS = (
    Post("/queues/{queue}/pause", _pause, Access.ACT),
    Post("/queues/{queue}/resume", _resume, Access.ACT),
    Post("/queues/{queue}/limits", _limits, Access.ACT),
    Post("/queues/{queue}/jobs", _jobs, Access.ACT),
)
