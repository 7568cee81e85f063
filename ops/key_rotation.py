"""A change of keys (LS-19): prepend a key, restart, rotate, drop the old one. Every step can be repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from kbsync.db.pool import Database
from kbsync.domain.errors import CredentialsRefused, SettingsError
from kbsync.library import audit, key_rotation
from kbsync.library.credentials import Vault
from kbsync.library.key_rotation import Sealed

BATCH = 200
NAMED = 20


@dataclass
class KeyUse:
    """`first` are sealed with the first key, `older` with another one that is still there, `lost` with none that is.
    `lost_ids` names some of those, as (organization, data source)."""

    first: int = 0
    older: int = 0
    lost: int = 0
    lost_ids: list[tuple[int, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.first + self.older + self.lost


async def key_use(database: Database, vault: Vault, *, at_most: int | None = None) -> KeyUse:
    """Which keys are needed. Nothing is changed; `at_most` bounds how many credentials are looked at."""
    use = KeyUse()
    async for one in _every(database):
        if at_most is not None and use.total >= at_most:
            break
        match _standing(vault, one):
            case "first":
                use.first += 1
            case "older":
                use.older += 1
            case _:
                use.lost += 1
                if len(use.lost_ids) < NAMED:
                    use.lost_ids.append((one.organization_id, one.id))
    return use


async def rotate(database: Database, vault: Vault, *, actor: str, progress: Callable[[int], None]) -> KeyUse:
    """After: the first key opens everything. Answers how it stood before. Raises SettingsError, and changes nothing, when
    some credentials can't be opened with any key; a run that stops half-way is simply started again."""
    before = await key_use(database, vault)
    if before.lost:
        some = ", ".join(f"data source {one} of organization {organization}" for organization, one in before.lost_ids)
        raise SettingsError(
            f"{before.lost} credentials can't be opened with any key of KBSYNC_CREDENTIALS_KEYS, so nothing was "
            f"changed: {some}. Add the key that sealed them, or enter them again (kbsync source credentials)"
        )
    done = 0
    async for one in _every(database):
        if _standing(vault, one) == "older":
            async with database.fleet() as connection:
                done += await key_rotation.reseal(connection, one, vault.reseal(one.sealed_credentials))
            progress(done)
    async with database.fleet() as connection:
        detail = {"resealed": done, "already": before.first}
        await audit.write(connection, actor=actor, action="keys.rotate", target="credentials", detail=detail)
    return before


def _standing(vault: Vault, one: Sealed) -> str:
    if vault.is_of_first_key(one.sealed_credentials):
        return "first"
    try:
        vault.open(one.sealed_credentials)
    except CredentialsRefused:
        return "lost"
    return "older"


async def _every(database: Database) -> AsyncIterator[Sealed]:
    after_id = 0
    while True:
        async with database.fleet() as connection:
            page = await key_rotation.sealed_after(connection, after_id, BATCH)
        for one in page:
            yield one
        if len(page) < BATCH:
            return
        after_id = page[-1].id
