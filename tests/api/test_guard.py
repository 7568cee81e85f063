"""SE-01, CP-22: who may call what, as a full matrix, and how a token comes and goes."""

from __future__ import annotations

import base64
import itertools
import re
from datetime import UTC, datetime, timedelta

import pytest

from kbsync.api.app import ROUTES
from kbsync.api.auth import CACHE_S, ROLES_OF, Authenticator, RouteClass, authorise, token_in
from kbsync.api.problems import Problem
from kbsync.db.pool import Database
from kbsync.domain.errors import DatabaseUnavailable, SettingsError
from kbsync.library.principals import Principal, Role, create_token, digest_of, list_tokens, revoke_token
from tests.api.conftest import Api, new_token


def principal(*roles: Role) -> Principal:
    return Principal(1, 1, "p", "service", frozenset(roles), None)


# Written out, not derived: the table in the code is what is being judged.
ALLOWED = {
    ("enqueue", "producer"),
    ("search", "reader"),
    ("queues", "reader"),
    ("queues", "viewer"),
    ("queues", "operator"),
    ("queues", "admin"),
    *(("description", role) for role in Role),
    ("metrics", "viewer"),
    ("metrics", "operator"),
    ("metrics", "admin"),
}


@pytest.mark.spec("CP-22")
@pytest.mark.parametrize(
    ("route_class", "role"), list(itertools.product(sorted(set(RouteClass) - {RouteClass.HEALTH}), Role))
)
def test_every_pair_of_route_class_and_role(route_class: RouteClass, role: Role) -> None:
    if (route_class, role) in ALLOWED:
        authorise(principal(role), route_class)
    else:
        with pytest.raises(Problem) as refused:
            authorise(principal(role), route_class)
        assert refused.value.status == 403


@pytest.mark.spec("CP-22")
def test_a_class_without_roles_is_closed_and_roles_add_up() -> None:
    with pytest.raises(Problem):
        authorise(principal(*Role), RouteClass.HEALTH)  # not in the table: nobody, however many roles
    assert RouteClass.HEALTH not in ROLES_OF
    authorise(principal(Role.READER, Role.PRODUCER), RouteClass.ENQUEUE)
    with pytest.raises(Problem):
        authorise(principal(), RouteClass.QUEUES)


@pytest.mark.spec("SE-01", "CP-22")
async def test_every_route_but_health_needs_a_principal_with_its_role(api: Api) -> None:
    bad = ["", "Bearer", "Bearer ", "Bearer wrong", "Basic " + base64.b64encode(b"x:wrong").decode(), "Digest a"]
    tokens = {role: (await new_token(api.database, role, name=role)).text for role in Role}
    for route in ROUTES:
        path = re.sub(r"\{\w+\}", "7", route.path)
        if route.route_class is RouteClass.HEALTH:
            async with api.client.request(route.method, path) as answer:
                assert answer.status == 200, route
            continue
        for authorization in bad:
            headers = {"Authorization": authorization} if authorization else {}
            async with api.client.request(route.method, path, headers=headers) as answer:
                assert answer.status == 401, (route, authorization)
                assert "WWW-Authenticate" in answer.headers
                assert answer.content_type == "application/problem+json"
        for role, token in tokens.items():
            headers = {"Authorization": f"Bearer {token}"}
            async with api.client.request(route.method, path, headers=headers) as answer:
                allowed = (route.route_class, role) in ALLOWED
                assert (answer.status != 403) == allowed, (route, role, answer.status)
                assert answer.status < 500


@pytest.mark.spec("SE-01")
async def test_what_is_not_there_says_so_to_principals_only(api: Api) -> None:
    for method, path in (("GET", "/nowhere"), ("DELETE", "/v1/queues"), ("GET", "/..%2f"), ("POST", "/healthz")):
        async with api.client.request(method, path) as answer:
            assert answer.status == 401, path
        async with api.client.request(method, path, headers=api.auth) as answer:
            assert answer.status in (404, 405), path
            assert answer.content_type == "application/problem+json"


@pytest.mark.spec("SE-01")
async def test_every_answer_carries_the_security_headers(api: Api) -> None:
    for path in ("/healthz", "/", "/nowhere", "/v1/queues"):
        async with api.client.get(path, headers=api.auth) as answer:
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Server"] == "kbsync"


@pytest.mark.spec("SE-01")
async def test_a_token_is_stored_as_its_digest_only(database: Database) -> None:
    made = await new_token(database, Role.PRODUCER)
    assert made.text.startswith("kbs_")
    async with database.fleet() as connection:
        stored = await connection.fetchrow("select * from kbsync.tokens")
    assert stored is not None
    assert stored["digest"] == digest_of(made.text)
    assert made.text.startswith(stored["hint"])
    assert len(stored["hint"]) < 12
    assert made.text not in str(dict(stored))


@pytest.mark.spec("SE-01")
async def test_a_revoked_token_is_refused_within_a_second_and_its_successor_is_not(database: Database) -> None:
    now = 100.0
    authenticator = Authenticator(database, clock=lambda: now)
    old = await new_token(database, Role.PRODUCER, name="app")
    new = await new_token(database, Role.PRODUCER, name="app")

    async def accepted(token: str) -> bool:
        try:
            await authenticator.authenticate(f"Bearer {token}")
        except Problem:
            return False
        return True

    assert await accepted(old.text)
    assert await accepted(new.text)
    async with database.fleet() as connection:
        assert await revoke_token(connection, old.token_id)
        assert not await revoke_token(connection, old.token_id)
    assert CACHE_S < 1
    now += CACHE_S
    assert not await accepted(old.text)
    assert await accepted(new.text)
    async with database.fleet() as connection:
        rows = await list_tokens(connection)
    assert [(row.token_id, row.revoked_at is None) for row in rows] == [(new.token_id, True), (old.token_id, False)]


@pytest.mark.spec("SE-01")
async def test_an_expired_token_is_nobodys_and_a_postgres_outage_is_no_401(database: Database) -> None:
    authenticator = Authenticator(database)
    async with database.fleet() as connection:
        expired = await create_token(
            connection, "late", roles=[Role.PRODUCER], expires_at=datetime.now(UTC) - timedelta(seconds=1)
        )
    with pytest.raises(Problem) as refused:
        await authenticator.authenticate(f"Bearer {expired.text}")
    assert refused.value.status == 401
    await database.close()
    with pytest.raises(DatabaseUnavailable):
        await authenticator.authenticate(f"Bearer {expired.text}")


@pytest.mark.spec("CP-22")
async def test_a_principal_does_not_change_its_roles_by_asking_for_a_token(database: Database) -> None:
    await new_token(database, Role.READER, name="app")
    with pytest.raises(SettingsError, match="app"):
        await new_token(database, Role.ADMIN, name="app")
    with pytest.raises(SettingsError):
        await new_token(database, name="nobody")
    async with database.fleet() as connection:
        await connection.execute(
            "update kbsync.principals set roles = array['reader', 'role-of-a-newer-version'] where name = 'app'"
        )
    [row] = [r for r in await _principals(database) if r.name == "app"]
    assert row.roles == frozenset({Role.READER})


async def _principals(database: Database) -> list[Principal]:
    async with database.fleet() as connection:
        made = await create_token(connection, "app2", roles=[Role.READER])
        await connection.execute(
            "update kbsync.tokens set principal_id = (select id from kbsync.principals where name = 'app') where id = $1",
            made.token_id,
        )
    found = await Authenticator(database).authenticate(f"Bearer {made.text}")
    return [found]


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic " + base64.b64encode(b"me:abc").decode(), None),
        ("Bearer " + "x" * 201, None),
        ("Bearer", None),
        (None, None),
    ],
)
def test_where_a_token_is_read_from(header: str | None, token: str | None) -> None:
    assert token_in(header) == token
