"""Health, queues, search and the status page over real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from kbsync.api.services import ApiServices
from kbsync.db.pool import Database
from kbsync.domain.states import JobState
from kbsync.library.principals import Role
from kbsync.queue.fleet import Fleet
from kbsync.queue.jobs import Enqueued, JobRequest
from kbsync.settings import load_settings
from ops.embedded.redis import EmbeddedRedis
from tests.api.conftest import ENQUEUE, Api, Client, new_token, serve, source
from tests.producers.doubles import Switch, redis_is_down


@pytest.fixture
async def own_redis(tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path / "redis", keep=False)
    server.start()
    yield server
    server.stop()


async def real_client(database: Database, fleet: Fleet) -> tuple[Client, dict[str, str]]:
    client = await serve(ApiServices(database, fleet, fleet, Switch(), load_settings()))
    token = (await new_token(database, *Role, name="all")).text
    return client, {"Authorization": f"Bearer {token}"}


@pytest.mark.spec("LS-01", "QU-20")
async def test_redis_that_dies_and_comes_back_is_503_and_then_each_once(
    database: Database, own_redis: EmbeddedRedis
) -> None:
    fleet = Fleet(own_redis.url)
    client, auth = await real_client(database, fleet)
    body = {"requests": [source(n) for n in range(1, 601)]}
    own_redis.kill()
    async with client.post(ENQUEUE, json=body, headers=auth) as answer:
        assert answer.status == 503
        assert "Retry-After" in answer.headers
    async with client.get("/readyz") as answer:
        assert (answer.status, await answer.json()) == (503, {"ready": False, "postgres": True, "redis": False})
    async with client.get("/healthz") as answer:
        assert answer.status == 200
    async with database.fleet() as connection:
        assert await connection.fetchval("select count(*) from kbsync.unit_requests") == 0
    own_redis.start()
    for outcome in ("created", "already_queued"):
        async with client.post(ENQUEUE, json=body, headers=auth) as answer:
            assert answer.status == 202
            assert {item["outcome"] for item in (await answer.json())["requests"]} == {outcome}
    async with client.get("/readyz") as answer:
        assert answer.status == 200
    async with client.get("/v1/queues", headers=auth) as answer:
        rows = {row["name"]: row for row in (await answer.json())["queues"]}
    assert rows["knowledge-base-sync"]["counts"]["waiting"] == 600
    assert rows["knowledge-base-chunks"]["counts"]["waiting"] == 0
    assert rows["knowledge-base-sync"]["paused"] is False
    await client.close()
    await fleet.close()


@pytest.mark.spec("LS-01", "QU-04")
async def test_redis_that_fails_between_two_groups_is_503_and_the_repeat_gives_each_once(
    database: Database, own_redis: EmbeddedRedis
) -> None:
    fleet = Fleet(own_redis.url)

    class FailsAfterTheFirstQueue:
        """Both queues' groups are sent one after the other; the server fails in between."""

        async def enqueue(self, queue: str, requests: list[JobRequest]) -> list[Enqueued]:
            if queue.endswith("chunks"):
                await admin.config_set("maxmemory", "1")  # from here on it refuses writes
            return await fleet.enqueue(queue, requests)

        live_job_ids = fleet.live_job_ids

    admin: Redis = Redis.from_url(own_redis.url)
    broken = await serve(ApiServices(database, FailsAfterTheFirstQueue(), fleet, Switch(), load_settings()))
    client, auth = await real_client(database, fleet)
    chunks = {"type": "document_chunks", "organization_id": 7, "document_id": 3}
    body = {"requests": [source(1), chunks]}
    async with broken.post(ENQUEUE, json=body, headers=auth) as answer:
        assert answer.status == 503
    async with database.fleet() as connection:
        assert await connection.fetchval("select count(*) from kbsync.unit_requests") == 0
    await admin.config_set("maxmemory", "0")
    async with client.post(ENQUEUE, json=body, headers=auth) as answer:
        assert answer.status == 202
        assert [item["outcome"] for item in (await answer.json())["requests"]] == ["already_queued", "created"]
    await admin.connection_pool.disconnect()
    await broken.close()
    await client.close()
    await fleet.close()


@pytest.mark.spec("LS-01", "QU-02")
async def test_fifty_equal_posts_at_once_are_one_job_on_redis(database: Database, own_redis: EmbeddedRedis) -> None:
    fleet = Fleet(own_redis.url)
    client, auth = await real_client(database, fleet)

    async def post() -> tuple[int, str]:
        async with client.post(ENQUEUE, json={"requests": [source(1)]}, headers=auth) as answer:
            return answer.status, (await answer.json())["requests"][0]["outcome"]

    answers = await asyncio.gather(*(post() for _ in range(50)))
    assert sorted(answers) == [(202, "already_queued")] * 49 + [(202, "created")]
    assert (await fleet.queue("knowledge-base-sync").counts()).of(JobState.WAITING) == 1
    await client.close()
    await fleet.close()


@pytest.mark.spec("LS-21", "SE-02")
async def test_search_finds_a_document_of_the_organization_and_of_no_other(api: Api) -> None:
    async with api.database.direct() as connection:
        await connection.execute("insert into organizations (id, name) values (7, 'a'), (8, 'b')")
        for organization_id in (7, 8):
            document = await connection.fetchval(
                "insert into knowledge_base_documents (organization_id, external_id, title, url, content) "
                "values ($1, 'x', '<b>Refunds</b>', 'https://a.example/refunds', 'Refunds take five days') returning id",
                organization_id,
            )
            await connection.execute(
                "insert into document_chunks (organization_id, source_type, source_id, content, title, url, language, "
                "searchable) values ($1, 'KnowledgeBaseDocument', $2, 'Refunds take five days', '<b>Refunds</b>', "
                "'https://a.example/refunds', 'english', to_tsvector('english', 'Refunds take five days'))",
                organization_id,
                document,
            )
    token = (await new_token(api.database, Role.READER, organization_id=7)).text
    async with api.client.get(
        "/v1/search?q=refund&organization_id=7", headers={"Authorization": f"Bearer {token}"}
    ) as answer:
        assert answer.status == 200
        results = (await answer.json())["results"]
    assert [(hit["document_id"], hit["link"]) for hit in results] == [(1, "https://a.example/refunds")]
    assert "<mark>Refunds</mark>" in results[0]["snippet_html"]


@pytest.mark.spec("OP-11")
async def test_readiness_names_what_is_away_and_no_address(api: Api) -> None:
    async with api.client.get("/readyz") as answer:
        assert (answer.status, await answer.json()) == (200, {"ready": True, "postgres": True, "redis": True})
    api.queue.fail = redis_is_down
    async with api.client.get("/readyz") as answer:
        assert (answer.status, await answer.json()) == (503, {"ready": False, "postgres": True, "redis": False})
    api.queue.fail = lambda _: None
    await api.database.close()
    async with api.client.get("/readyz") as answer:
        assert (answer.status, await answer.json()) == (503, {"ready": False, "postgres": False, "redis": True})


@pytest.mark.spec("LS-21")
async def test_search_answers_a_principals_own_organization(api: Api) -> None:
    everybody = {"Authorization": "Bearer " + (await new_token(api.database, Role.READER)).text}
    bound = {"Authorization": "Bearer " + (await new_token(api.database, Role.READER, organization_id=7)).text}

    async def get(headers: dict[str, str], query: str) -> tuple[int, dict[str, object]]:
        async with api.client.get(f"/v1/search?{query}", headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    assert await get(everybody, "q=hello&organization_id=7") == (200, {"results": []})
    assert (await get(bound, "q=hello&organization_id=7"))[0] == 200
    assert (await get(bound, "q=hello&organization_id=8"))[0] == 403
    for query, pointer in (
        ("organization_id=7", "q"),
        ("q=hello", "organization_id"),
        ("q=hello&organization_id=0", "organization_id"),
        (f"q=hello&organization_id={2**63}", "organization_id"),
        ("q=hello&organization_id=7&limit=1001", "limit"),
        ("q=hello&organization_id=7&offset=-1", "offset"),
        ("q=hello&organization_id=7&surprise=1", "surprise"),
        ("q=hello&q=again&organization_id=7", ""),
        ("q=-only&organization_id=7", "q"),
        ("q=" + "x" * 600 + "&organization_id=7", "q"),
    ):
        status, body = await get(everybody, query)
        assert status == 422, query
        errors = body["errors"]
        assert isinstance(errors, list)
        assert errors[0]["pointer"] == pointer
    for hostile in ("%00", "%ff", "'%3B drop table x", "a%00b", "((((", "%F0%9F%98%80", "a" * 400):
        assert (await get(everybody, f"q={hostile}&organization_id=7"))[0] in (200, 422), hostile
