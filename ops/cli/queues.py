"""Looking at queues, jobs and throttles, and the few operator actions there are so far (QU-13, QU-18, QU-19, RL-07)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from ops.cli.output import JSON_OPTION, print_json, print_rows

if TYPE_CHECKING:
    from kbsync.queue.operators import QueueOperator, Report
    from ops.cli.context import Connected

_ERROR = typer.Option("", "--error", help="Only failed jobs whose error holds this text.")


def add_to(app: typer.Typer) -> None:
    app.command()(queues)
    app.command()(jobs)
    app.command()(throttles)


def queues(
    pause: str = typer.Option("", help="Pause this queue: it hands nothing out and keeps accepting."),
    resume: str = typer.Option("", help="Resume this queue."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Every queue: how many jobs are in which state.

    Example: kbsync queues --pause knowledge-base-sync
    """
    from dataclasses import asdict

    from kbsync.domain.ids import QueueName
    from kbsync.queue.fleet import unavailable_if_redis_fails
    from ops.cli.context import connected, run

    async def look() -> list[dict[str, object]]:
        async with connected() as here, unavailable_if_redis_fails("any"):
            if pause:
                await _operator(here, pause).pause()
            if resume:
                await _operator(here, resume).resume()
            return [{"queue": str(name), **asdict(await here.fleet.queue(name).counts())} for name in QueueName]

    print_rows(run(look), as_json=as_json)


def jobs(
    queue: str = typer.Argument(help="knowledge-base-sync or knowledge-base-chunks."),
    job_id: str = typer.Argument("", help="Show one job in full."),
    state: str = typer.Option("failed", help="waiting, delayed, active, completed, skipped, cancelled or failed."),
    kind: str = typer.Option("", help="Only jobs of this kind."),
    error: str = _ERROR,
    limit: int = typer.Option(20, min=1, max=500),
    act: str = typer.Option("", help="retry, promote, remove or cancel: on the one job, or on all that match."),
    yes: bool = typer.Option(False, "--yes", help="Do it without asking."),
    as_json: bool = JSON_OPTION,
) -> None:
    """A queue's jobs, one job, or an action on them. Actions are safe to repeat and audited.

    Example: kbsync jobs knowledge-base-sync --state failed --error 429 --act retry
    """
    from dataclasses import asdict

    from kbsync.domain.errors import SettingsError
    from kbsync.domain.states import JobState
    from kbsync.queue.fleet import unavailable_if_redis_fails
    from kbsync.queue.operators import Action
    from kbsync.queue.views import JobFilter
    from ops.cli.context import connected, run

    if state not in set(JobState):
        raise SettingsError(f"no state {state!r}; there are {', '.join(JobState)}")
    if act and act not in set(Action):
        raise SettingsError(f"no action {act!r}; there are {', '.join(Action)}")
    where = JobFilter(kind=kind or None, error=error or None)

    async def show() -> None:
        async with connected() as here, unavailable_if_redis_fails(queue):
            listed = here.fleet.queue(_known(queue))
            if job_id:
                detail = await listed.detail(job_id)
                if detail is None:
                    raise SettingsError(f"no job {job_id} in {queue}")
                print_json(asdict(detail))
                return
            page = await listed.page(JobState(state), limit=limit, where=where)
            rows: list[dict[str, object]] = [
                {
                    "job": one.job_id,
                    "kind": one.kind,
                    "tenant": one.tenant,
                    "priority": str(one.priority),
                    "attempts": one.attempts,
                    "until": _time(one.until_ms),
                    "ended": _time(one.ended_ms),
                    "why": one.reason or (one.error or {}).get("message"),
                }
                for one in page.jobs
            ]
            print_rows(rows, as_json=as_json, empty=f"no {state} jobs")
            if page.cursor:
                typer.echo(f"({page.looked_at} jobs were looked at; there are more)", err=True)

    async def do() -> Report:
        async with connected() as here, unavailable_if_redis_fails(queue):
            operator = _operator(here, queue)
            if job_id:
                return await operator.act(Action(act), [job_id])
            return await operator.act_on_all(Action(act), JobState(state), where)

    if not act:
        run(show)
        return
    if not job_id and not yes:
        typer.confirm(f"{act} every {state} job of {queue} that matches?", abort=True)
    report = run(do)
    print_rows([{"matched": report.matched, "done": report.done, "refused": dict(report.refused)}], as_json=as_json)


def throttles(as_json: bool = JSON_OPTION) -> None:
    """Each provider window in use: used, limit, reserved ahead, closed until."""
    from dataclasses import asdict

    from kbsync.queue.fleet import unavailable_if_redis_fails
    from ops.cli.context import connected, run
    from ratelimits.throttle import Throttle

    async def look() -> list[dict[str, object]]:
        async with connected() as here, unavailable_if_redis_fails("throttles"):
            redis = here.fleet.client_at(here.settings.redis_url or "")
            return [asdict(view) for view in await Throttle(redis).windows()]

    print_rows(run(look), as_json=as_json, empty="no window is in use")


def _known(queue: str) -> str:
    from kbsync.domain.errors import SettingsError
    from kbsync.domain.ids import QueueName

    if queue not in set(QueueName):
        raise SettingsError(f"no queue {queue!r}; there are {', '.join(QueueName)}")
    return queue


def _operator(here: Connected, queue: str) -> QueueOperator:
    from kbsync.queue.operators import QueueOperator

    return QueueOperator(here.fleet.queue(_known(queue)), audit=_auditing(here))


def _auditing(here: Connected) -> Callable[[str, str, str, Report | None], Awaitable[None]]:
    from ops.cli.context import audited

    async def audit(action: str, queue: str, asked: str, report: Report | None) -> None:
        detail = {"asked": asked} | ({"matched": report.matched, "done": report.done} if report else {})
        async with here.database.fleet() as connection:
            await audited(connection, f"queue.{action}", f"queue:{queue}", detail=detail)

    return audit


def _time(ms: int | None) -> str | None:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}" if ms else None
