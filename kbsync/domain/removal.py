"""What a listing may remove (LS-09): absence proves deletion only in a listing that is complete and believable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LARGE_SHARE = 0.30
LARGE_COUNT = 10


class Remove(StrEnum):
    NOTHING = "nothing"
    MISSING_TWICE = "missing_twice"  # what the held run and this one both missed
    EVERYTHING_MISSING = "everything_missing"


@dataclass(frozen=True)
class Removal:
    """`hold` is why the rest of what is missing waits for a second complete run or an operator; None when nothing waits."""

    remove: Remove
    hold: str | None = None


def decide_removal(*, complete: bool, kept: int, missing: int, missing_twice: int) -> Removal:
    """Before: `kept` counts the source's kept documents, `missing` those of them that this run did not see,
    `missing_twice` those that the run whose removal is held did not see either.

    A first empty listing, and a first removal of more than 30 % and more than 10 documents, are held. What two complete
    runs missed goes. An incomplete listing removes and holds nothing: what was held stays held."""
    if not complete or missing == 0:
        return Removal(Remove.NOTHING)
    missing_once = missing - missing_twice
    if missing_once == 0:
        return Removal(Remove.EVERYTHING_MISSING)
    confirmed = Remove.MISSING_TWICE if missing_twice else Remove.NOTHING
    if missing == kept:
        return Removal(confirmed, "the listing was empty")
    if missing_once > LARGE_COUNT and missing_once > LARGE_SHARE * kept:
        return Removal(confirmed, f"{missing_once} of {kept} documents would go at once")
    return Removal(Remove.EVERYTHING_MISSING)
