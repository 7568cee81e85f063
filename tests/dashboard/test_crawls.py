"""`/crawls` and `/crawls/{id}`: figures that move, failures by reason, and a tree that stays bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from kbsync.db.statements import Statements
from kbsync.domain.ids import url_digest
from kbsync.library import crawl_views
from kbsync.library.principals import Role
from tests.acceptance.deployment import until
from tests.dashboard.conftest import Dashboard
from tests.dashboard.knowledge_rows import EVIL, Shelf, most_rows, shelf, working

SITE = "https://docs.example.test"


@pytest.fixture
async def acme(dashboard: Dashboard) -> Shelf:
    return await shelf(dashboard.runtime.database, "Acme")


async def small_crawl(acme: Shelf) -> int:
    task = await acme.crawl(await acme.source(name="Manual"), found=6, pending=1)
    await acme.url(task, f"{SITE}/")
    await acme.url(task, f"{SITE}/guide", f"{SITE}/")
    await acme.url(task, f"{SITE}/guide/a", f"{SITE}/guide", "failed", "the page: answered 500")
    await acme.url(task, f"{SITE}/guide/b", f"{SITE}/guide", "failed", "the page: answered 500")
    await acme.url(task, f"{SITE}/gone", f"{SITE}/", "gone", "answered 404")
    await acme.url(task, f"{SITE}/later", f"{SITE}/", None)
    return task


@pytest.mark.spec("OP-05")
async def test_a_crawl_says_how_far_it_is_what_failed_and_where_that_sits(dashboard: Dashboard, acme: Shelf) -> None:
    person = await dashboard.person(Role.VIEWER)
    task = await small_crawl(acme)
    status, text = await person.get(f"/crawls/{task}")
    assert status == 200
    for said in (
        "5 of 6 URLs finished, 2 URLs failed.",
        "stored 2",
        "pending 1",
        "<strong>2 URLs</strong>: <bdi>The page: answered 500.</bdi>",
        "on average since it began",
        "/guide/a",
        "3 found, <span",
    ):
        assert said in text.replace("3 found, 1 pending", "3 found, <span"), said
    assert '<details open><summary class="leaf c-failed">' in text
    _, failed = await person.get(f"/crawls/{task}?outcome=failed")
    assert failed.count('class="leaf entry c-failed"') == 2
    assert "/gone" not in failed.split('id="urls"')[1]
    key = url_digest(f"{SITE}/guide")
    _, below = await person.get(f"/crawls/{task}?at={key}")
    assert "/guide/b" in below
    assert "/gone" not in below.split('id="urls"')[1]
    assert (await person.get(f"/crawls/{task}?at={'0' * 64}"))[0] == 404
    _, lists = await person.get("/crawls")
    assert "Manual" in lists
    assert "1 crawl is under way." in lists
    assert "No crawl fits" in (await person.get("/crawls?status=failed"))[1]


@pytest.mark.spec("SE-04")
async def test_hostile_urls_are_text(dashboard: Dashboard, acme: Shelf) -> None:
    person = await dashboard.person(Role.VIEWER)
    task = await acme.crawl(await acme.source(name=EVIL), found=3)
    await acme.url(task, f"{SITE}/")
    await acme.url(task, f'{SITE}/"><img src=x onerror=alert(1)>', f"{SITE}/", "failed", EVIL)
    await acme.url(task, "javascript:alert(1)", f"{SITE}/", "refused", EVIL)
    for path in (f"/crawls/{task}", f"/crawls/{task}?outcome=failed", f"/crawls/{task}?outcome=refused", "/crawls"):
        status, text = await person.get(path)
        assert status == 200, path
        for markup in ("<img src=x", 'href="javascript:', "\u202e"):
            assert markup not in text, (path, markup)


@pytest.mark.spec("OP-05")
async def test_the_figures_of_a_running_crawl_move(dashboard: Dashboard, acme: Shelf) -> None:
    person = await dashboard.person(Role.VIEWER)
    task = await small_crawl(acme)
    async with person.http.get(f"{dashboard.url}/crawls/{task}", headers={"Accept": "text/event-stream"}) as stream:
        await seen(stream, "5 of 6 URLs finished")
        await acme.run(
            "update kbsync.crawl_task_urls set finished_at = now(), outcome = 'stored'"
            " where organization_id = $1 and crawl_task_id = $2 and finished_at is null returning id",
            task,
        )
        await acme.run(
            "update knowledge_base_crawl_tasks set urls_pending = 0, status = 'completed', finished_at = now()"
            " where organization_id = $1 and id = $2 returning id",
            task,
        )
        moved = await seen(stream, "6 of 6 URLs finished")
        assert "completed" in moved
        # The tree is no live part: nobody's open folds close under them.
        assert "tree-head" not in moved


async def seen(stream: aiohttp.ClientResponse, words: str) -> str:
    text = ""
    async with asyncio.timeout(30):
        async for part in stream.content.iter_any():
            text += part.decode()
            if words in text:
                return text
    raise AssertionError(f"the stream ended before it said: {words}")


@pytest.fixture
async def site() -> AsyncIterator[str]:
    """Four pages, one of which is not there."""

    async def page(request: web.Request) -> web.Response:
        if request.path == "/":
            body = '<h1>Start</h1><p>Words.</p><a href="/a">a</a> <a href="/b">b</a> <a href="/missing">c</a>'
        elif request.path in ("/a", "/b"):
            body = f"<h1>Page {request.path}</h1><p>Refunds of {request.path}.</p>"
        else:
            return web.Response(status=404)
        return web.Response(text=f"<html><title>{request.path}</title>{body}</html>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.spec("LS-04", "OP-05")
async def test_sync_now_of_a_website_is_a_crawl_to_look_at(dashboard: Dashboard, acme: Shelf, site: str) -> None:
    person = await dashboard.person(Role.OPERATOR)
    source = await acme.source("website", "Site", {"start_url": f"{site}/"})
    assert "up to 5,000 URLs" in (await person.get(f"/sources/{source}"))[1]
    await person.post(f"/sources/{source}/sync")

    async def ended() -> bool:
        return "took" in (await person.get("/crawls/1"))[1]

    async with working(dashboard.runtime):
        await until(ended, "the crawl to end")
    _, text = await person.get("/crawls/1")
    for said in ("4 of 4 URLs finished", "stored 3", "gone 1", "It was complete", "/missing"):
        assert said in text, said
    assert 'href="/documents/' in text


@pytest.mark.spec("OP-05")
async def test_a_crawl_of_100_000_urls_stays_bounded(dashboard: Dashboard, acme: Shelf, database_url: str) -> None:
    person = await dashboard.person(Role.VIEWER)
    task = await acme.crawl(await acme.source(name="Huge"), found=100_001, status="completed")
    await acme.url(task, f"{SITE}/")
    await acme.run(
        "with made as (insert into kbsync.crawl_task_urls (organization_id, crawl_task_id, url, url_key, fetch_url,"
        " parent_url, depth, finished_at, outcome, detail) select $1, $2, $3 || n,"
        " encode(sha256(convert_to($3 || n, 'UTF8')), 'hex'), $3 || n,"
        " case when n <= 50000 then $3 else $3 || n % 50 end, 1, now(),"
        " case when n % 20 = 0 then 'failed' else 'stored' end, 'reason ' || n % 40"
        " from generate_series(1, 100000) n returning id) select count(*) from made",
        task,
        f"{SITE}/",
    )
    status, text = await person.get(f"/crawls/{task}")
    assert status == 200
    assert text.count("<li>") < 400
    assert "over 1,000 found" in text
    assert "failed 5,000" in text
    assert "The newest 1,000, grouped" in text
    assert len(text) < 300_000
    _, failed = await person.get(f"/crawls/{task}?outcome=failed")
    assert failed.count('class="leaf entry c-failed"') == 50
    onwards = failed.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    assert (await person.get(onwards))[1].count('class="leaf entry c-failed"') == 50

    statements = Statements.beside(crawl_views.__file__)
    one, parents = acme.organization_id, [f"{SITE}/{number}" for number in range(40)]
    async with dashboard.runtime.database.organization(one) as connection:
        nodes = await crawl_views.children(connection, one, task, [f"{SITE}/"], 0, 41)
        peek = await crawl_views.children(connection, one, task, parents, 0, 5)
    top, deep = [node.id for node in nodes[f"{SITE}/"]], [node.id for below in peek.values() for node in below]
    assert (len(top), len(deep)) == (41, 40 * 5)
    asked = (
        ("seed_ids", (one, task, 0, 41), 100),
        ("child_ids", (one, task, [f"{SITE}/"], 0, 41), 100),
        ("child_ids", (one, task, parents, 0, 5), 500),
        ("nodes", (one, task, top, 1_001), 45_000),
        ("nodes", (one, task, deep, 101), 25_000),
        ("failure_reasons", (one, task, 1_000), 5_000),  # 1,000 by the index, or the failed ones sorted
        ("urls_by_outcome", (one, task, "failed", 0, 51), 100),
        ("crawl_page", (one, task), 5_100),  # counts what was not stored, and nothing of what was
    )
    costs = await most_rows(database_url, *((statements[name], arguments) for name, arguments, _ in asked))
    assert [name for (name, _, most), cost in zip(asked, costs, strict=True) if cost > most] == []
