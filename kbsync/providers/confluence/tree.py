"""A space's pages as they stand under each other: sections of the library, and restrictions that reach down. Pure.

A page with pages below it is a section too, within that of the page above; what stands under the space's home page (or under
nothing that is known) is in the space's own section. A page belongs to the section of the page above it, so that an
overview stands beside the section that bears its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kbsync.providers.confluence.audience import Reach
from kbsync.providers.confluence.payloads import Entry, Readers, Space
from kbsync.providers.contract import ListedSection


@dataclass
class Tree:
    """`places`: pages and what they stand under, by id. `own`: each one's restriction, as far as it is known."""

    space: Space
    places: dict[str, Entry]
    own: Mapping[str, Readers]
    members: Sequence[str]
    _reached: dict[str, Reach] = field(default_factory=dict)
    _rooted: dict[str, bool] = field(default_factory=dict)

    def sections(self) -> Iterator[ListedSection]:
        yield ListedSection(self.space.section, self.space.name)
        for identifier in sorted({entry.parent for entry in self.places.values() if entry.parent is not None}):
            place = self.places.get(identifier)
            if place is not None and identifier != self.space.home_id and self._is_rooted(identifier):
                yield ListedSection(_section(identifier), place.title, self.section_of(place), place.position)

    def section_of(self, entry: Entry) -> str:
        parent = entry.parent
        if parent is None or parent == self.space.home_id or not self._is_rooted(parent):
            return self.space.section
        return _section(parent)

    def reach(self, identifier: str) -> Reach:
        """Down from the space to this place. A place that is not known, or a circle, hides who may read what is below."""
        way, top = self._way(identifier, self._reached)
        reach = self._reached[top] if top in self._reached else Reach(is_known=top is None)
        for one in reversed(way):
            reach = reach.within(self.own.get(one), self.members)
            self._reached[one] = reach
        return reach

    def unknown_parents(self) -> dict[str, str]:
        """What something stands under and no list told of: id -> kind."""
        return {
            entry.parent: entry.parent_kind
            for entry in self.places.values()
            if entry.parent is not None and entry.parent not in self.places
        }

    def _is_rooted(self, identifier: str) -> bool:
        """Whether it is a known place whose way up ends, at nothing or at a place that is not known, and is no circle."""
        if identifier not in self.places:
            return False
        way, top = self._way(identifier, self._rooted)
        rooted = self._rooted.get(top, top not in way) if top is not None else True
        self._rooted.update(dict.fromkeys(way, rooted))
        return rooted

    def _way(self, identifier: str, known: Mapping[str, object]) -> tuple[dict[str, None], str | None]:
        """The known places from here upwards until one that `known` has, and what comes after them: None at the top."""
        way: dict[str, None] = {}
        current: str | None = identifier
        while current is not None and current in self.places and current not in way and current not in known:
            way[current] = None
            current = self.places[current].parent
        return way, current


def _section(identifier: str) -> str:
    return f"page-{identifier}"
