"""Flipper's expressions: `{"Equal": [{"Property": ["flipper_id"]}, "Organization;7"]}`. Pure.

kbsync does not have the Rails model, so it knows an organization's `id`, `flipper_id` and `type` and nothing else of it.
An expression that asks for more, or for another flag, can't be evaluated here: CannotEvaluate, and the gate counts as off.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from kbsync.flags.ruby_values import falls_within, to_boolean, to_number

Value: TypeAlias = str | int | float | bool | datetime | None
MAX_DEPTH = 50


class CannotEvaluate(Exception):
    """The message names the part that kbsync can't know."""


@dataclass(frozen=True)
class Surroundings:
    """`properties` are the actor's, empty when there is none; `now` is aware; `random` is drawn from [0, 1)."""

    feature: str
    properties: Mapping[str, Value]
    has_actor: bool
    now: datetime
    random: float


def evaluate(expression: object, around: Surroundings) -> bool:
    """Ruby's truth of the expression: everything but nil and false. Raises CannotEvaluate."""
    return _truthy(_value(expression, around, 0))


def _value(node: object, around: Surroundings, depth: int) -> Value:
    if depth > MAX_DEPTH:
        raise CannotEvaluate("an expression nested too deeply")
    if isinstance(node, (str, bool, int, float)):
        return node
    if not isinstance(node, dict) or not node:
        raise CannotEvaluate(f"{type(node).__name__} in an expression")
    name, given = next(iter(node.items()))
    if isinstance(given, dict):
        raise CannotEvaluate(f"{name} with arguments that are no list")
    given = given if isinstance(given, list) else [] if given is None else [given]
    function = _FUNCTIONS.get(name)
    if function is None:
        raise CannotEvaluate(f"the function {name}")
    arguments = [_value(argument, around, depth + 1) for argument in given]
    try:
        return function(arguments, around)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise CannotEvaluate(f"{name} with these arguments") from error


def _truthy(value: Value) -> bool:
    return value is not None and value is not False


def _one(arguments: Sequence[Value]) -> Value:
    (value,) = arguments
    return value


def _property(arguments: Sequence[Value], around: Surroundings) -> Value:
    key = _to_s(_one(arguments))
    if around.has_actor and key not in around.properties:
        raise CannotEvaluate(f"the property {key}")
    return around.properties.get(key)


def _same(left: Value, right: Value) -> bool:
    # In Ruby true is not 1.
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _compare(compares: Callable[[object, object], bool]) -> Callable[[Sequence[Value], Surroundings], Value]:
    def compare(arguments: Sequence[Value], around: Surroundings) -> Value:
        left, right = arguments
        numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in arguments)
        alike = all(isinstance(side, str) for side in arguments) or all(isinstance(s, datetime) for s in arguments)
        return (numbers or alike) and compares(left, right)

    return compare


def _equal(arguments: Sequence[Value], around: Surroundings) -> Value:
    left, right = arguments
    return _same(left, right)


def _not_equal(arguments: Sequence[Value], around: Surroundings) -> Value:
    left, right = arguments
    return not _same(left, right)


def _percentage(arguments: Sequence[Value], around: Surroundings) -> Value:
    percentage = float(_to_number(_one(arguments)))
    # Ruby's clamp answers the bound itself, an integer: it is another text, so another bucket.
    return 0 if percentage < 0 else 100 if percentage > 100 else percentage


def _percentage_of_actors(arguments: Sequence[Value], around: Surroundings) -> Value:
    text, percentage = arguments
    if isinstance(percentage, bool) or not isinstance(percentage, (int, float)):
        raise TypeError("a percentage is a number")
    return falls_within(f"{around.feature}{_to_s(text)}", percentage)


def _to_number(value: Value) -> int | float:
    if isinstance(value, (bool, datetime)):
        raise TypeError("no number")
    return to_number(value) if isinstance(value, str) or value is None else value


def _to_s(value: Value) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if not (value == 0 or 1e-4 <= abs(value) < 1e16):
            raise CannotEvaluate("a float that Ruby writes differently")
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S} UTC"  # every time here is in UTC
        case _:
            return str(value)


def _random(arguments: Sequence[Value], around: Surroundings) -> Value:
    most = _to_number(arguments[0]) if arguments else 0
    if most == 0:
        return around.random
    if isinstance(most, float) or most < 0:
        raise CannotEvaluate("Random of a number that is no positive integer")
    return int(around.random * most)


_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?: ?UTC|Z|[+-]\d{2}:?\d{2})", re.ASCII)


def _time(arguments: Sequence[Value], around: Surroundings) -> Value:
    value = _one(arguments)
    if isinstance(value, str):
        # Ruby guesses at other spellings, with the zone of its own machine: not ours to repeat.
        if not _TIME.fullmatch(value):
            raise CannotEvaluate("a time that is not ISO 8601 with a zone")
        return datetime.fromisoformat(re.sub(r" ?UTC$", "Z", value)).astimezone(UTC)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("no time")
    return datetime.fromtimestamp(value, UTC)


_FUNCTIONS: Mapping[str, Callable[[Sequence[Value], Surroundings], Value]] = {
    "All": lambda arguments, around: all(map(_truthy, arguments)),
    "Any": lambda arguments, around: any(map(_truthy, arguments)),
    "Boolean": lambda arguments, around: to_boolean(_one(arguments)),
    "Equal": _equal,
    "NotEqual": _not_equal,
    "GreaterThan": _compare(operator.gt),  # type: ignore[arg-type]  # _compare lets only like sides through
    "GreaterThanOrEqualTo": _compare(operator.ge),  # type: ignore[arg-type]  # as above
    "LessThan": _compare(operator.lt),  # type: ignore[arg-type]  # as above
    "LessThanOrEqualTo": _compare(operator.le),  # type: ignore[arg-type]  # as above
    "Now": lambda arguments, around: around.now,
    "Number": lambda arguments, around: _to_number(_one(arguments)),
    "Percentage": _percentage,
    "PercentageOfActors": _percentage_of_actors,
    "Property": _property,
    "Random": _random,
    "String": lambda arguments, around: _to_s(_one(arguments)),
    "Time": _time,
}
