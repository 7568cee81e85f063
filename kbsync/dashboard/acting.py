"""What a person may do to jobs, in the words that say it before it is done; and who does it, audited (QU-19)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from kbsync.dashboard.ask import Ask, NotHere
from kbsync.dashboard.words import count, plain_number
from kbsync.domain.ids import QueueName
from kbsync.domain.states import JobState
from kbsync.library import audit
from kbsync.queue.keys import id_bytes, id_text
from kbsync.queue.operators import Action, QueueOperator, Report
from kbsync.queue.queue import FleetQueue

# What may be done to jobs of a state. A completed job's request is not kept, so it can't be retried.
ACTIONS_OF: Mapping[JobState, tuple[Action, ...]] = {
    JobState.WAITING: (Action.CANCEL, Action.REMOVE),
    JobState.DELAYED: (Action.PROMOTE, Action.CANCEL, Action.REMOVE),
    JobState.ACTIVE: (Action.CANCEL,),
    JobState.COMPLETED: (Action.REMOVE,),
    JobState.SKIPPED: (Action.RETRY, Action.REMOVE),
    JobState.CANCELLED: (Action.RETRY, Action.REMOVE),
    JobState.FAILED: (Action.RETRY, Action.REMOVE),
}
AUDITED = "Written to the audit record under your name."


@dataclass(frozen=True)
class Doing:
    """An action in words. `past` follows a number of jobs; `says` is what will happen; `grave`: it can't be undone."""

    action: Action
    verb: str
    past: str
    says: tuple[str, ...]
    leave: str = "Leave it"
    grave: bool = False


DOING: Mapping[Action, Doing] = {
    Action.RETRY: Doing(
        Action.RETRY,
        "Retry",
        "wait again",
        (
            "Each runs again under its own id, with 3 new attempts.",
            "Jobs that were enqueued again meanwhile are left as they are.",
        ),
    ),
    Action.PROMOTE: Doing(
        Action.PROMOTE,
        "Promote",
        "promoted",
        (
            "Each waits in line now, instead of until its time.",
            "Windows of providers and the queue’s own limits still hold: a full window delays a job once more.",
        ),
    ),
    Action.REMOVE: Doing(
        Action.REMOVE,
        "Remove",
        "removed",
        (
            "The queue forgets the job, its payload and its tracebacks. This can’t be undone.",
            "What it was asked for is given up; the next daily tick asks again for what is still due.",
        ),
        "Keep it",
        grave=True,
    ),
    Action.CANCEL: Doing(
        Action.CANCEL,
        "Cancel",
        "cancelled, or asked to stop",
        (
            "A job that waits or is delayed ends as cancelled at once; it can be retried later.",
            "A job that runs is asked to stop, and hears of it within about a second.",
        ),
        "Let it be",
    ),
    Action.DRAIN: Doing(
        Action.DRAIN,
        "Drain",
        "drained",
        (
            "Every waiting job is removed, with what it was asked for. This can’t be undone.",
            "Delayed and active jobs stay. The queue goes on taking new ones.",
        ),
        "Keep them",
        grave=True,
    ),
}


def queue_of(ask: Ask) -> FleetQueue:
    """The queue of the path. Raises NotHere for one that is none of ours."""
    name = ask.part("queue")
    if name not in set(QueueName):
        raise NotHere(f"There is no queue {name[:80]!r}. The queues are {' and '.join(QueueName)}.")
    return ask.services.fleet.queue(name)


def operator_of(ask: Ask, queue: FleetQueue, reason: str | None = None) -> QueueOperator:
    """Acts on `queue`; each act is in the audit under the person's name."""

    async def note(action: str, name: str, asked: str, report: Report | None) -> None:
        detail: dict[str, object] = {"asked": printable(asked)}
        if report is not None:
            detail |= {"matched": report.matched, "done": report.done, "refused": dict(report.refused)}
        async with ask.services.database.fleet() as connection:
            await audit.write(
                connection,
                actor=ask.principal.name,
                action=f"queue.{action}",
                target=f"queue:{name}",
                reason=reason,
                detail=detail,
            )

    return QueueOperator(queue, audit=note)


def printable(text: str) -> str:
    """Ids from outside for the audit's detail: what Postgres can't hold becomes `?`."""
    return "".join("?" if character == "\0" or "\ud800" <= character <= "\udfff" else character for character in text)


def said_of(report: Report) -> str:
    """One sentence in numbers: `3 jobs wait again. Left alone: 1 already waiting.`"""
    doing = DOING[report.action]
    if not report.matched:
        return "Nothing was there to act on."
    past = "waits again" if report.done == 1 and doing.action is Action.RETRY else doing.past
    sentence = f"{count(report.done, 'job')} {past}." if report.done else "Nothing was changed."
    if report.refused:
        reasons = ", ".join(f"{plain_number(many)} {why}" for why, many in report.refused.most_common())
        sentence += f" Left alone: {reasons}."
    return sentence


# Job ids in addresses and forms: any bytes, percent-encoded


def key_of(job_id: str) -> str:
    """A job id as a form carries it."""
    return quote(id_bytes(job_id), safe="")


def id_of(key: str) -> str:
    """The id of a key. An id of letters, digits, `-`, `_`, `.` and `~` is its own key."""
    return id_text(unquote_to_bytes(key))


def asked_id(ask: Ask) -> str:
    """The job id that the address asks for, whatever its bytes are."""
    pairs = parse_qsl(ask.request.rel_url.raw_query_string, encoding="utf-8", errors="surrogateescape")
    job_id = dict(pairs).get("id", "")
    if not job_id:
        raise NotHere("An address of a job ends in ?id= and the job’s id.")
    return job_id


def job_path(queue: str, job_id: str) -> str:
    return f"/queues/{queue}/job?id={key_of(job_id)}"


def queue_path(queue: str, **parameters: str | int | None) -> str:
    """The queue's page with those parameters that say something."""
    given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
    text = urlencode(given, errors="surrogateescape")
    return f"/queues/{queue}?{text}" if text else f"/queues/{queue}"
