"""The API with its dashboard on a loopback port, over the test's own Postgres and Redis, and people to look at it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from kbsync.api.app import build_app
from kbsync.api.services import ApiServices
from kbsync.api.wire import ApiRunner
from kbsync.library.principals import Role, create_token
from kbsync.queue.fleet import Fleet
from kbsync.settings import Settings
from ops.serve.api import dashboard_of
from workers.runtime import Runtime


@dataclass
class Person:
    """Somebody signed in by the login form, or with `token` alone a program. Redirects are followed as a browser does."""

    url: str
    name: str
    http: aiohttp.ClientSession
    token: str
    csrf: str = ""
    answers: list[tuple[str, int]] = field(default_factory=list)

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.http.get(self.url + path, headers={"Accept": "text/html", **headers}) as answer:
            self.answers.append((path, answer.status))
            return answer.status, await answer.text()

    async def post(self, path: str, form: Mapping[str, str] | None = None, **more: str) -> tuple[int, str]:
        """As a form of a page of ours: with the session's CSRF token and this origin."""
        fields = {"csrf": self.csrf, **(form or {}), **more}
        headers = {"Accept": "text/html", "Origin": self.url, "Sec-Fetch-Site": "same-origin"}
        async with self.http.post(self.url + path, data=fields, headers=headers) as answer:
            self.answers.append((path, answer.status))
            return answer.status, await answer.text()

    async def raw(
        self, method: str, path: str, *, data: object = None, headers: Mapping[str, str] | None = None
    ) -> aiohttp.ClientResponse:
        """Exactly this request; the answer is read, redirects are not followed."""
        answer = await self.http.request(
            method, self.url + path, data=data, headers=dict(headers or {}), allow_redirects=False
        )
        await answer.read()
        return answer


@dataclass
class Dashboard:
    url: str
    runtime: Runtime
    people: list[Person] = field(default_factory=list)

    async def person(
        self,
        *roles: Role,
        name: str = "",
        organization_id: int | None = None,
        groups: Sequence[str] = (),
        public_only: bool = False,
    ) -> Person:
        """Signed in by the form. Without roles: an operator who may also search."""
        roles = roles or (Role.OPERATOR, Role.READER)
        name = name or f"{'-'.join(roles)}-{len(self.people)}"
        async with self.runtime.database.fleet() as connection:
            made = await create_token(
                connection,
                name,
                roles=roles,
                kind="human",
                organization_id=organization_id,
                groups=groups,
                public_only=public_only,
            )
        http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        person = Person(self.url, name, http, made.text)
        self.people.append(person)
        _, text = await person.get("/login")
        person.csrf = csrf_in(text)
        status, text = await person.post("/login", token=made.text, next="/settings")
        assert status == 200, text
        person.csrf = csrf_in(text)
        return person

    @asynccontextmanager
    async def stranger(self) -> AsyncIterator[Person]:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            yield Person(self.url, "nobody", http, "")

    async def audit(self, action: str | None = None) -> list[tuple[str, str, str]]:
        """(actor, action, target) of the audit, oldest first, sign-ins left out."""
        async with self.runtime.database.fleet() as connection:
            rows = await connection.fetch("select actor, action, target from kbsync.audit_entries order by id")
        found = [(row["actor"], row["action"], row["target"]) for row in rows]
        return [row for row in found if not row[1].startswith("dashboard.") and action in (None, row[1])]

    @property
    def fleet(self) -> Fleet:
        return self.runtime.fleet


def csrf_in(text: str) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', text)
    assert found, text[:2_000]
    return found[1]


@pytest.fixture
async def dashboard(settings: Settings) -> AsyncIterator[Dashboard]:
    runtime = await Runtime.open(settings)
    services = ApiServices(runtime.database, runtime.fleet, runtime.fleet, runtime.kill_switch, settings)
    runner = ApiRunner(build_app(services, dashboard_of(runtime)), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served = Dashboard(f"http://127.0.0.1:{runner.addresses[0][1]}", runtime)
    yield served
    for person in served.people:
        await person.http.close()
    await runner.cleanup()
    await runtime.close()
