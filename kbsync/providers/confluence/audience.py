"""Who may find a page (LS-27): its space's readers, narrowed by its own restriction and by every one above it. Pure.

    space ---> page ---> page ---> page        a restriction anywhere on the way holds for all below it

Several restrictions on the way: only who is named in each of them. Names are compared as they are; where none is in all of
them, a group may still share people with another one, which nobody here can know: then nobody finds the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from kbsync.providers.confluence.payloads import Readers, mappings, within
from kbsync.providers.contract import PUBLIC, Audience, AudienceKind
from kbsync.providers.fields import text_in

MEMBERS = Audience(AudienceKind.MEMBERS)
UNKNOWN = Audience(AudienceKind.UNKNOWN)


@dataclass(frozen=True)
class Reach:
    """What restrictions leave over: `names` None is no restriction, `has_account` narrows to people with an account,
    not `is_known` means that one of them could not be read."""

    names: frozenset[str] | None = None
    has_account: bool = False
    is_known: bool = True

    def within(self, readers: Readers, members: Sequence[str]) -> Reach:
        """Narrowed by one more restriction."""
        if readers is None:
            return replace(self, is_known=False)
        if not readers:
            return self
        if any(is_everybody(name, members) for name in readers):
            return replace(self, has_account=True)
        return replace(self, has_account=True, names=readers if self.names is None else self.names & readers)


def is_everybody(group: str, members: Iterable[str]) -> bool:
    return any(fnmatchcase(group, pattern) for pattern in members)


def audience_of(space: Audience, reach: Reach) -> Audience:
    if space.kind is AudienceKind.UNKNOWN or not reach.is_known:
        return UNKNOWN
    names = reach.names
    if space.kind is AudienceKind.GROUPS:
        names = frozenset(space.groups) if names is None else names & frozenset(space.groups)
    if names is None:
        return MEMBERS if reach.has_account else space
    return Audience(AudienceKind.GROUPS, tuple(sorted(names))) if names else UNKNOWN


def space_audience(permissions: Any, members: Sequence[str]) -> Audience:
    """From a space's permissions. Anonymous access is public; a group of everybody with an account is members; else only the
    groups and people that may read it."""
    if not isinstance(permissions, list):
        return UNKNOWN
    names: list[str] = []
    open_to_accounts = False
    for permission in mappings(permissions):
        operation = permission.get("operation")
        if text_in(operation, "operation") != "read" or text_in(operation, "targetType") not in (None, "space"):
            continue
        if permission.get("anonymousAccess") is True:
            return PUBLIC
        open_to_accounts = open_to_accounts or permission.get("unlicensedAccess") is True
        groups = mappings(within(permission, "subjects", "group", "results"))
        names += [name for one in groups if (name := text_in(one, "name") or text_in(one, "id"))]
        for one in mappings(within(permission, "subjects", "user", "results")):
            person = text_in(one, "accountId") or text_in(one, "username") or text_in(one, "userKey")
            names += [f"user:{person}"] if person else []
    if open_to_accounts or any(is_everybody(name, members) for name in names):
        return MEMBERS
    return Audience(AudienceKind.GROUPS, tuple(sorted(set(names)))) if names else UNKNOWN
