"""Who may find a document, and who asks (LS-27). Pure; `migrations/routines/audience_allows.sql` is the same rule in SQL.

document's audience    public   members             groups                     unknown
who finds it           all      askers who are      askers of one of them      nobody
                                members
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AudienceKind(StrEnum):
    PUBLIC = "public"  # everybody who may search the organization
    MEMBERS = "members"  # whoever is signed in at the provider: the organization's people
    GROUPS = "groups"  # the named groups only
    UNKNOWN = "unknown"  # it can't be read: nobody finds it


@dataclass(frozen=True)
class Audience:
    """Who may find a document (LS-27). `groups` are the provider's own names or ids of groups, for kind GROUPS."""

    kind: AudienceKind
    groups: tuple[str, ...] = ()


PUBLIC = Audience(AudienceKind.PUBLIC)


@dataclass(frozen=True)
class Asker:
    """On whose behalf the library is read. `is_member`: one of the organization's people; `groups` are theirs, spelled as
    the provider spells them."""

    is_member: bool = False
    groups: tuple[str, ...] = ()

    def may_find(self, audience: Audience) -> bool:
        match audience.kind:
            case AudienceKind.PUBLIC:
                return True
            case AudienceKind.MEMBERS:
                return self.is_member
            case AudienceKind.GROUPS:
                return not set(self.groups).isdisjoint(audience.groups)
            case AudienceKind.UNKNOWN:
                return False


ANYBODY = Asker()
MEMBER = Asker(is_member=True)
