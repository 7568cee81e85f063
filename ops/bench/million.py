"""PF-07: a million waiting jobs beside a thousand: what a client sees of claims, enqueues, counts and dashboard pages.

Two queues on two servers of their own, asked in turn, so that a slow moment of the machine hits both. Their sizes stay:
what a step claims, it puts in again.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from kbsync.library.principals import Role
from kbsync.queue.ends import Finish, finish_of_value
from kbsync.queue.exchange import Retention, exchange_arguments, read_exchange
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Completed, Enqueued, JobRequest
from kbsync.queue.keys import id_text
from kbsync.queue.running import Run
from kbsync.queue.scripts import run_script
from ops.bench import contestants
from ops.bench.figures import Bar, Check, Figure, Row, limit, ratio, sample
from ops.bench.ours import QUEUE
from ops.bench.page_times import Browser, NoPage
from ops.bench.processes import kbsync_up, new_token, postgres_up, redis_up
from ops.bench.table import Options

T = TypeVar("T")

FEW, MANY = 1_000, 1_000_000
TENANTS = 100
STEP = 25  # jobs a call: half the slots of a worker as it ships, which is what it claims at once
WARM_UP = 5
SETTLE_WITHIN_S = 120.0
FILL = 5_000  # jobs a call, which must not take as long as a client waits for Redis
PAGES = ("/", f"/queues/{QUEUE}")
PAGE_MS, BAR = 150.0, 1.5


class Client:
    """A producer and a worker in one, on one queue of `size` jobs."""

    def __init__(self, url: str, size: int, payload_bytes: int) -> None:
        self.size = size
        self.took_ms: dict[str, list[float]] = defaultdict(list)
        self._fleet = Fleet(url)
        self._queue = self._fleet.queue(QUEUE)
        self._text = "x" * payload_bytes
        self._numbers = itertools.count()
        self._ended: list[Finish] = []

    async def fill(self) -> None:
        """After: `size` jobs wait, and the server has written down what they are."""
        for at in range(0, self.size, FILL):
            await self._put_in(min(FILL, self.size - at))
        async with asyncio.timeout(SETTLE_WITHIN_S):
            while (await self._queue.redis.info("persistence"))["aof_rewrite_in_progress"]:
                await asyncio.sleep(0.2)

    async def step(self) -> None:
        """Claims, finishing what the step before claimed; enqueues as many; looks at the counts. Each is timed."""
        await self._timed("a claim", self._exchange)
        await self._timed("an enqueue", lambda: self._put_in(STEP))
        counts = await self._timed("a count", self._queue.counts)
        assert counts.waiting == self.size, counts

    async def close(self) -> None:
        await self._fleet.close()

    async def _timed(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        begun = time.perf_counter()
        answer = await call()
        self.took_ms[what].append((time.perf_counter() - begun) * 1e3)
        return answer

    async def _put_in(self, count: int) -> list[Enqueued]:
        return await self._fleet.enqueue(
            QUEUE, [self._job(number) for number in itertools.islice(self._numbers, count)]
        )

    def _job(self, number: int) -> JobRequest:
        tenant = f"org-{number % TENANTS}"
        return JobRequest(f"kb-document-sync-{number}", "sync_document", {"text": self._text}, tenant)

    async def _exchange(self) -> None:
        token = f"bench-{next(self._numbers)}"
        arguments = exchange_arguments(token, 60_000, STEP, self._ended, 3, Retention())
        claimed = read_exchange(await run_script(self._queue.redis, "exchange", self._queue.keys.all, arguments))
        runs = [
            Run(id_text(job_id), token, payload or b"", None, 3, 0, lambda run: None)
            for job_id, payload in zip(claimed.ids, claimed.payloads, strict=True)
        ]
        assert len(runs) == STEP
        self._ended = [finish_of_value(run, Completed(), int(time.time() * 1000)) for run in runs]


def measure(options: Options) -> list[Figure]:
    many = options.count(MANY, 20_000)
    steps, views = options.count(300, 30), options.count(40, 5)
    size = contestants.payload_bytes()
    with ExitStack() as up:
        database_url = up.enter_context(postgres_up(options.folder))
        urls = [up.enter_context(redis_up(options.folder)).url for _ in range(2)]
        took = asyncio.run(rates([(urls[0], FEW), (urls[1], many)], size, steps, options))
        ports = [
            up.enter_context(
                kbsync_up(options.folder, "api", KBSYNC_DATABASE_URL=database_url, KBSYNC_REDIS_URL=url)
            ).port
            for url in urls
        ]
        options.say("dashboard pages")
        pages, missing = page_times(ports, new_token(database_url, *Role), views)
    few_of, many_of = (
        {what: sample(values, "ms") for what, values in (by_what | by_page).items()}
        for by_what, by_page in zip(took, pages, strict=True)
    )
    checks: list[Check] = [
        ratio(f"{what}'s time at {FEW:,}", many_of.get(what), few_of.get(what), BAR, Bar.AT_MOST)
        for what in ("a claim", "an enqueue", "a count", *PAGES)
    ]
    checks += [limit(f"ms for {page}", many_of.get(page), PAGE_MS, Bar.BELOW) for page in PAGES]
    rows = [
        Row(f"{what}, {number:,} waiting", of.get(what), missing.get(what, ""))
        for what in ("a claim", "an enqueue", "a count", *PAGES)
        for number, of in ((FEW, few_of), (many, many_of))
    ]
    notes = (
        f"a claim takes {STEP} jobs and finishes {STEP}, an enqueue puts {STEP} in: ms a call, as a client sees it; {steps} "
        f"calls on either queue in turn; {TENANTS} organizations; pages {views} times",
    )
    return [Figure("PF-07", f"{many:,} waiting", tuple(checks), tuple(rows), notes)]


async def rates(
    queues: Sequence[tuple[str, int]], payload_bytes: int, steps: int, options: Options
) -> list[dict[str, list[float]]]:
    """What each step took, by what it did, for each queue."""
    clients = [Client(url, size, payload_bytes) for url, size in queues]
    for client in clients:
        begun = time.perf_counter()
        await client.fill()
        options.say(f"{client.size:,} jobs went in, {client.size / (time.perf_counter() - begun):,.0f}/s")
    for number in range(WARM_UP + steps):
        for client in clients:
            if number == WARM_UP:
                client.took_ms.clear()
            await client.step()
    for client in clients:
        await client.close()
    return [client.took_ms for client in clients]


def page_times(ports: Sequence[int], token: str, views: int) -> tuple[list[dict[str, list[float]]], dict[str, str]]:
    """Ms by page, for each API in turn; and why a page has none."""
    took: list[dict[str, list[float]]] = [{} for _ in ports]
    missing: dict[str, str] = {}
    browsers = [Browser(port) for port in ports]
    try:
        for browser in browsers:
            browser.sign_in(token)
    except NoPage as error:
        return took, dict.fromkeys(PAGES, str(error))
    for page in PAGES:
        try:
            for number in range(views + WARM_UP):
                for browser, mine in zip(browsers, took, strict=True):
                    ms = browser.time_of(page)
                    if number >= WARM_UP:
                        mine.setdefault(page, []).append(ms)
        except NoPage as error:
            missing[page] = str(error)
            for mine in took:
                mine.pop(page, None)
    for browser in browsers:
        browser.close()
    return took, missing
