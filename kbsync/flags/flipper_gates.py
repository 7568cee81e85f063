"""One flag as Ruby Flipper 1.4 evaluates it, from its rows of `flipper_gates` (KS-04). Pure.

A flag is on when any gate is open: boolean, expression, actors, percentage of actors, percentage of time, groups. Groups
are Ruby blocks that live in the Rails app, so nothing here can open that one.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kbsync.flags.flipper_expression import CannotEvaluate, Surroundings, Value, evaluate
from kbsync.flags.ruby_values import falls_within, to_boolean, to_number

log = logging.getLogger(__name__)

_ACTOR = "Organization;"


def actor_of(organization_id: int) -> str:
    """How a Rails app's `Organization` model names itself to Flipper."""
    return f"{_ACTOR}{organization_id}"


@dataclass(frozen=True)
class FlipperGates:
    """A FlagSnapshot. Values are as Flipper keeps them; `expression` is parsed JSON, None when there is none."""

    feature: str
    boolean: bool = False
    actors: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    percentage_of_actors: int | float = 0
    percentage_of_time: int | float = 0
    expression: object = field(default=None, hash=False)

    @classmethod
    def from_rows(cls, feature: str, rows: Iterable[tuple[str, str | None]]) -> FlipperGates:
        """`rows` are (gate key, value), oldest first: where Flipper expects one row, the first one counts."""
        values: dict[str, list[str]] = {}
        for key, value in rows:
            values.setdefault(key, []).append(value or "")

        def first(key: str) -> str | None:
            return values[key][0] if key in values else None

        return cls(
            feature,
            to_boolean(first("boolean")),
            frozenset(values.get("actors", ())),
            frozenset(values.get("groups", ())),
            to_number(first("percentage_of_actors")),
            to_number(first("percentage_of_time")),
            _parsed(feature, first("expression")),
        )

    def is_enabled(self, organization_id: int | None = None) -> bool:
        _say_once(self.feature, [f"group {name}" for name in sorted(self.groups)])
        actor = None if organization_id is None else actor_of(organization_id)
        return (
            self.boolean
            or self._by_expression(organization_id)
            or (actor is not None and (actor in self.actors or self._by_percentage(actor)))
            or self._by_time()
        )

    @property
    def on_for_all(self) -> bool:
        return self.boolean or self.percentage_of_actors >= 100 or self.percentage_of_time >= 100

    @property
    def organizations(self) -> frozenset[int]:
        tails = (actor.removeprefix(_ACTOR) for actor in self.actors if actor.startswith(_ACTOR))
        return frozenset(int(tail) for tail in tails if tail.isascii() and tail.isdigit() and len(tail) < 20)

    @property
    def other_gates(self) -> tuple[str, ...]:
        known = {actor_of(organization) for organization in self.organizations}
        parts = [f"actor {actor}" for actor in sorted(self.actors - known)]
        parts += [f"group {group} (not evaluated)" for group in sorted(self.groups)]
        if 0 < self.percentage_of_actors < 100:
            parts.append(f"{self.percentage_of_actors:g} % of organizations")
        if 0 < self.percentage_of_time < 100:
            parts.append(f"{self.percentage_of_time:g} % of the time")
        if self.expression:
            parts.append("an expression")
        return tuple(parts)

    def _by_percentage(self, actor: str) -> bool:
        if self.percentage_of_actors <= 0 or self.percentage_of_actors >= 100:
            return self.percentage_of_actors >= 100
        return falls_within(f"{self.feature}{actor}", self.percentage_of_actors)

    def _by_time(self) -> bool:
        if self.percentage_of_time <= 0 or self.percentage_of_time >= 100:
            return self.percentage_of_time >= 100
        return random.random() < self.percentage_of_time / 100.0

    def _by_expression(self, organization_id: int | None) -> bool:
        if not self.expression:
            return False
        properties: dict[str, Value] = {}
        if organization_id is not None:
            properties = {"id": organization_id, "flipper_id": actor_of(organization_id), "type": "Organization"}
        around = Surroundings(self.feature, properties, organization_id is not None, datetime.now(UTC), random.random())
        try:
            return evaluate(self.expression, around)
        except CannotEvaluate as what:
            _say_once(self.feature, [str(what)])
            return False


def _parsed(feature: str, expression: str | None) -> object:
    if not expression:
        return None
    try:
        return json.loads(expression)
    except (ValueError, RecursionError):
        _say_once(feature, ["an expression that is not JSON"])
        return None


_said: set[tuple[str, str]] = set()


def _say_once(feature: str, parts: Iterable[str]) -> None:
    for part in parts:
        if (feature, part) not in _said and len(_said) < 1_000:
            _said.add((feature, part))
            log.warning("flag %s: %s can't be evaluated outside the Rails app and counts as off", feature, part)
