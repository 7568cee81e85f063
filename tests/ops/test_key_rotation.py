"""A change of keys: nothing is lost half-way, and what can't be opened is said before anything is touched (LS-19)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from cryptography.fernet import Fernet

from kbsync.db.pool import Database
from kbsync.domain.errors import SettingsError
from kbsync.library import data_sources, key_rotation
from kbsync.library.credentials import Vault
from kbsync.settings import Settings
from ops.doctor import examine
from ops.findings import Severity
from ops.key_rotation import BATCH, key_use, rotate
from tests.ops.source_verbs import Verbs, kbsync
from tests.producers.library_rows import an_organization

__all__ = ["kbsync"]
OLD, NEW, LOST = (Fernet.generate_key().decode() for _ in range(3))


async def sealed_with(database: Database, key: str, count: int, organization: int = 7) -> list[int]:
    await an_organization(database, organization)
    vault, made = Vault(key), []
    async with database.organization(organization) as connection:
        for number in range(count):
            sealed = vault.seal({"token": f"secret-{number}"})
            made.append(await data_sources.create(connection, organization, provider="toy", sealed_credentials=sealed))
    return made


async def opened(database: Database, ids: Sequence[int], key: str) -> list[str]:
    async with database.fleet() as connection:
        rows = await connection.fetch("select sealed_credentials from data_sources where id = any($1) order by id", ids)
    return [Vault(key).open(row[0])["token"] for row in rows]


def quiet(done: int) -> None:
    return None


@pytest.mark.spec("LS-19")
async def test_after_a_rotation_the_new_key_alone_opens_everything(database: Database) -> None:
    old = await sealed_with(database, OLD, BATCH + 5)
    await sealed_with(database, NEW, 2, organization=8)
    vault = Vault(f"{NEW},{OLD}")
    before = await rotate(database, vault, actor="ada", progress=quiet)
    assert (before.older, before.first) == (BATCH + 5, 2)
    assert await opened(database, old, NEW) == [f"secret-{number}" for number in range(BATCH + 5)]
    again = await rotate(database, vault, actor="ada", progress=quiet)
    assert (again.older, again.first) == (0, BATCH + 7)
    async with database.fleet() as connection:
        detail = await connection.fetch(
            "select detail::text from kbsync.audit_entries where action = 'keys.rotate' order by id"
        )
    assert [row[0] for row in detail] == [
        f'{{"already": 2, "resealed": {BATCH + 5}}}',
        f'{{"already": {BATCH + 7}, "resealed": 0}}',
    ]


@pytest.mark.spec("LS-19")
async def test_one_that_stops_half_way_goes_on(database: Database) -> None:
    ids = await sealed_with(database, OLD, 10)

    def stop(done: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    vault = Vault(f"{NEW},{OLD}")
    with pytest.raises(KeyboardInterrupt):
        await rotate(database, vault, actor="ada", progress=stop)
    half = await key_use(database, vault)
    assert (half.first, half.older) == (4, 6)
    assert (await rotate(database, vault, actor="ada", progress=quiet)).older == 6
    assert len(await opened(database, ids, NEW)) == 10


@pytest.mark.spec("LS-19")
async def test_what_no_key_opens_is_named_and_nothing_is_changed(database: Database) -> None:
    old = await sealed_with(database, OLD, 3)
    (lost,) = await sealed_with(database, LOST, 1, organization=8)
    with pytest.raises(SettingsError, match=f"data source {lost} of organization 8"):
        await rotate(database, Vault(f"{NEW},{OLD}"), actor="ada", progress=quiet)
    assert len(await opened(database, old, OLD)) == 3


@pytest.mark.spec("LS-19")
async def test_credentials_that_were_entered_meanwhile_stay(database: Database) -> None:
    (one,) = await sealed_with(database, OLD, 1)
    async with database.fleet() as connection:
        (read,) = await key_rotation.sealed_after(connection, 0, 10)
    newer = Vault(NEW).seal({"token": "newer"})
    async with database.organization(7) as connection:
        await data_sources.set_sealed_credentials(connection, 7, one, newer)
    async with database.fleet() as connection:
        assert not await key_rotation.reseal(connection, read, Vault(NEW).seal({"token": "secret-0"}))
    assert await opened(database, [one], NEW) == ["newer"]


@pytest.mark.spec("LS-19")
async def test_the_doctor_says_which_keys_are_needed(settings: Settings, database: Database) -> None:
    await sealed_with(database, OLD, 2)

    async def found(keys: str) -> list[tuple[Severity, str]]:
        with_keys = Settings(**{**settings.model_dump(), "credentials_keys": keys})
        findings = await examine(lambda: with_keys)
        return [(one.severity, one.what) for one in findings if one.check == "credentials"]

    assert await found(OLD) == []
    ((severity, what),) = await found(f"{NEW},{OLD}")
    assert (severity, what.split()[0]) == (Severity.WARNING, "2")
    ((severity, what),) = await found(NEW)
    assert severity is Severity.ERROR
    assert "secret" not in what


@pytest.mark.spec("LS-19", "OP-03")
async def test_the_verb_says_how_many_and_when_the_old_key_may_go(kbsync: Verbs, database: Database) -> None:
    await sealed_with(database, kbsync.key, 2)
    said = await kbsync("keys", "rotate")
    assert "0 resealed from older keys, 2 had the first key already" in said.out
    assert "can be dropped" in said.out
    assert (await kbsync("keys", "rotate", "--dry-run", "--json")).json == {
        "first_key": 2, "older_keys": 0, "lost": 0, "resealed": 0,
    }  # fmt: skip
