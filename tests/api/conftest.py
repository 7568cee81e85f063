"""The API on a real socket over a real Postgres, with a queue in memory (tests that need Redis say so)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kbsync.api.app import RUNNER_OPTIONS, build_app
from kbsync.api.services import ApiServices
from kbsync.db.pool import Database
from kbsync.library.principals import NewToken, Role, create_token
from kbsync.settings import load_settings
from tests.producers.doubles import MemoryQueue, Switch

ENQUEUE = "/internal/knowledge_base_sync/enqueue"
Client = TestClient[web.Request, web.Application]


@dataclass
class Api:
    client: Client
    queue: MemoryQueue
    switch: Switch
    database: Database
    token: str

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def post(self, body: object, **headers: str) -> tuple[int, dict[str, object], dict[str, str]]:
        async with self.client.post(ENQUEUE, json=body, headers=self.auth | headers) as answer:
            return answer.status, await answer.json(content_type=None), dict(answer.headers)

    async def post_raw(self, body: bytes, **headers: str) -> tuple[int, dict[str, object]]:
        sent = self.auth | {"Content-Type": "application/json"} | headers
        async with self.client.post(ENQUEUE, data=body, headers=sent) as answer:
            return answer.status, await answer.json(content_type=None)

    async def unit_requests(self) -> list[str]:
        async with self.database.fleet() as connection:
            rows = await connection.fetch("select job_id from kbsync.unit_requests order by job_id")
        return [row["job_id"] for row in rows]


async def new_token(
    database: Database, *roles: Role, name: str | None = None, organization_id: int | None = None
) -> NewToken:
    async with database.fleet() as connection:
        return await create_token(
            connection,
            name or "-".join(sorted(roles)) + f"-{organization_id}",
            roles=roles,
            organization_id=organization_id,
        )


def source(source_id: int, organization_id: int = 7) -> dict[str, object]:
    return {"type": "sync_source", "organization_id": organization_id, "source_id": source_id}


async def serve(services: ApiServices) -> Client:
    server = TestServer(build_app(services))
    await server.start_server(**RUNNER_OPTIONS)
    client: Client = TestClient(server)
    return client


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Api]:
    queue, switch = MemoryQueue(), Switch()
    client = await serve(ApiServices(database, queue, queue, switch, load_settings()))
    yield Api(client, queue, switch, database, (await new_token(database, Role.PRODUCER)).text)
    await client.close()


__all__ = ["ENQUEUE", "Api", "new_token", "serve", "source"]
