"""Who may call: principals and their tokens, of which only digests are kept (CP-22, SE-01). Transactions: `fleet()`."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

import asyncpg

from kbsync.db.pool import Connection
from kbsync.db.statements import Statements
from kbsync.domain.audience import Asker
from kbsync.domain.errors import SettingsError
from kbsync.domain.text import storable

_SQL = Statements.beside(__file__)

TOKEN_PREFIX = "kbs_"
MAX_TOKEN_LENGTH = 200
_HINT_LENGTH = len(TOKEN_PREFIX) + 4

PrincipalKind = Literal["human", "service", "agent"]


class Role(StrEnum):
    PRODUCER = "producer"  # asks for work
    READER = "reader"  # searches
    VIEWER = "viewer"  # looks at the fleet
    OPERATOR = "operator"  # looks and acts
    ADMIN = "admin"  # tokens and settings


@dataclass(frozen=True)
class Principal:
    """`organization_id` binds it to one organization; None means the whole deployment. `groups` are its own, as providers
    name them; `public_only`: it is no member anywhere, and finds public content alone (LS-27)."""

    id: int
    token_id: int
    name: str
    kind: str
    roles: frozenset[Role]
    organization_id: int | None
    groups: tuple[str, ...] = ()
    public_only: bool = False

    @property
    def asker(self) -> Asker:
        return asker_of(self.groups, public_only=self.public_only)


@dataclass(frozen=True)
class NewToken:
    """`text` is shown once and kept nowhere."""

    token_id: int
    text: str


@dataclass(frozen=True)
class TokenRow:
    token_id: int
    principal: str
    kind: str
    roles: tuple[str, ...]
    organization_id: int | None
    groups: tuple[str, ...]
    public_only: bool
    hint: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def asker_of(groups: Iterable[str], *, public_only: bool = False) -> Asker:
    """Whoever was given a token is one of the organization's people, unless it is for public content alone."""
    return Asker() if public_only else Asker(is_member=True, groups=tuple(groups))


def digest_of(token: str) -> bytes:
    """What is stored of a token: sha256. A token is 256 random bits, so nothing slower is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


async def find_principal(connection: Connection, digest: bytes) -> Principal | None:
    """The principal of a live token, or None: unknown, revoked and expired look alike."""
    row = await connection.fetchrow(_SQL["principal_of_digest"], digest)
    if row is None or not hmac.compare_digest(row["digest"], digest):
        return None
    return principal_in(row)


def principal_in(row: asyncpg.Record) -> Principal:
    """Roles of a newer version are left out."""
    known = {str(role) for role in Role}
    return Principal(
        id=row["id"],
        token_id=row["token_id"],
        name=row["name"],
        kind=row["kind"],
        roles=frozenset(Role(role) for role in row["roles"] if role in known),
        organization_id=row["organization_id"],
        groups=tuple(row["groups"]),
        public_only=row["public_only"],
    )


async def asker_named(connection: Connection, name: str) -> Asker | None:
    """What the principal of this name may find; None for a name of nobody."""
    row = await connection.fetchrow(_SQL["principal_named"], name)
    return asker_of(row["groups"], public_only=row["public_only"]) if row else None


async def create_token(
    connection: Connection,
    name: str,
    *,
    roles: Iterable[Role],
    kind: PrincipalKind = "service",
    organization_id: int | None = None,
    groups: Iterable[str] = (),
    public_only: bool = False,
    expires_at: datetime | None = None,
) -> NewToken:
    """A new token for the principal `name`, which is made when it is new.

    A known principal keeps what it is: asking for other roles, groups or another organization raises SettingsError. Several
    live tokens of one principal are how a token is rotated without downtime."""
    wanted = sorted({str(role) for role in roles})
    if not wanted:
        raise SettingsError("a principal needs at least one role")
    of_groups = sorted({storable(group).strip() for group in groups} - {""})
    if public_only and of_groups:
        raise SettingsError("a principal of groups is a member: it can't be for public content alone")
    principal_id = await connection.fetchval(
        _SQL["insert_principal_if_absent"], name, kind, wanted, organization_id, of_groups, public_only
    )
    if principal_id is None:
        known = await connection.fetchrow(_SQL["principal_named"], name)
        assert known is not None
        if (sorted(known["roles"]), known["organization_id"], known["kind"]) != (wanted, organization_id, kind):
            raise SettingsError(
                f"principal {name!r} exists as {known['kind']} with roles {', '.join(sorted(known['roles']))}: "
                "use another name, or the same roles"
            )
        if (sorted(known["groups"]), known["public_only"]) != (of_groups, public_only):
            raise SettingsError(f"principal {name!r} exists with other groups: use another name, or the same groups")
        principal_id = known["id"]
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token_id = await connection.fetchval(
        _SQL["insert_token"], principal_id, digest_of(text), text[:_HINT_LENGTH], expires_at
    )
    return NewToken(token_id, text)


async def list_tokens(connection: Connection) -> list[TokenRow]:
    """Every token, live or not, newest first; never its text or digest."""
    return [
        TokenRow(
            token_id=row["id"],
            principal=row["name"],
            kind=row["kind"],
            roles=tuple(row["roles"]),
            organization_id=row["organization_id"],
            groups=tuple(row["groups"]),
            public_only=row["public_only"],
            hint=row["hint"],
            created_at=row["created_at"],
            expires_at=row["expires_at"],
            revoked_at=row["revoked_at"],
        )
        for row in await connection.fetch(_SQL["all_tokens"])
    ]


async def revoke_token(connection: Connection, token_id: int) -> bool:
    """True when this call ended it; within a second no process takes it any more."""
    return await connection.fetchval(_SQL["revoke_token_if_live"], token_id) is not None
