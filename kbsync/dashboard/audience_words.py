"""For whom a document is, in words (LS-27). Pure; names of groups are words from outside."""

from __future__ import annotations

from kbsync.dashboard.words import count
from kbsync.domain.audience import Audience, AudienceKind

MOST_GROUPS = 20
NOT_SAID = "Its source did not say who may read it, so its text is shown to nobody."
NOT_SAID_CURE = "Let the connection read permissions and groups there; the next sync asks again."


def audience_words(audience: Audience) -> str:
    match audience.kind:
        case AudienceKind.PUBLIC:
            return "everybody"
        case AudienceKind.MEMBERS:
            return "members"
        case AudienceKind.GROUPS:
            shown = ", ".join(audience.groups[:MOST_GROUPS])
            more = len(audience.groups) - MOST_GROUPS
            return f"{count(len(audience.groups), 'group')}: {shown}" + (f" and {more} more" if more > 0 else "")
        case AudienceKind.UNKNOWN:
            return "not said"


def why_hidden(audience: Audience) -> str:
    """To somebody who may not find it."""
    return NOT_SAID if audience.kind is AudienceKind.UNKNOWN else f"It is for {audience_words(audience)}."
