"""What a person is asked for when a source of a provider is added: its config model, its secrets, one line about each.

Each provider's package says it in its `setup.py` as `SETUP`, so that the command line learns of a new provider from the
registry's line alone (LS-18).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from kbsync.domain.errors import SettingsError, UnknownProvider
from kbsync.providers.config import read_config
from kbsync.providers.registry import FACTORIES


@dataclass(frozen=True)
class Secret:
    """A credential by its name in `SourceSetup.credentials`, and what it is. `only`: a setting and the value with which it
    counts. `is_open`: a name rather than a secret, seen while it is typed. `is_offered` False: taken, but nobody is asked
    for it."""

    name: str
    help: str
    only: tuple[str, str] | None = None
    is_open: bool = False
    is_offered: bool = True


@dataclass(frozen=True)
class Declaration:
    """`title` is what people call the provider. `config` checks what they type; `help` has a line for each of its fields that
    is worth one. `secrets` are the ways to sign in, each a set that suffices, the usual one first; none: it needs none.
    `where` is the field that names the place, so that it can be given without its name. `include`, `exclude` likewise.
    `asked` are settings that a person at a terminal chooses though they have a default, as questions depend on them."""

    title: str
    config: type[BaseModel]
    secrets: Sequence[Sequence[Secret]] = ()
    secrets_are_optional: bool = False
    help: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    include: str | None = None
    exclude: str | None = None
    asked: Sequence[str] = ()

    @property
    def a_source(self) -> str:
        return f"{'an' if self.title[:1] in 'AEIOU' else 'a'} {self.title} source"

    def ways(self, config: Mapping[str, object]) -> list[Sequence[Secret]]:
        """The ways to sign in that count with these settings."""

        def counts(secret: Secret) -> bool:
            if secret.only is None:
                return True
            name, value = secret.only
            return config.get(name, self.config.model_fields[name].default) == value

        return [way for way in self.secrets if all(counts(secret) for secret in way)]

    @property
    def required(self) -> list[str]:
        """The fields that have no default, in the model's order."""
        fields = self.config.model_fields
        return [name for name, one in fields.items() if one.is_required()]

    @property
    def secret_names(self) -> list[str]:
        return list(dict.fromkeys(secret.name for way in self.secrets for secret in way))

    def describe(self) -> str:
        """The fields and secrets, a line each."""
        lines = [f"{self.title}"]
        for name, one in self.config.model_fields.items():
            choices = _choices(one.annotation)
            facts = [f"one of {', '.join(choices)}"] if choices else []
            if one.is_required():
                facts.append("needed")
            elif one.default not in (None, (), PydanticUndefined):
                facts.append(f"default {_shown(one.default)}")
            needed = f" ({'; '.join(facts)})" if facts else ""
            lines.append(f"  {name}{needed}{': ' + self.help[name] if name in self.help else ''}")
        for number, way in enumerate(self.secrets):
            lines.append("  credentials:" if number == 0 else "  or:")
            lines += [f"    {secret.name}: {secret.help}" for secret in way]
        return "\n".join(lines)

    def read(self, given: Sequence[tuple[str, str]], known: Mapping[str, object] | None = None) -> dict[str, object]:
        """The config of typed `name`, `text` pairs over `known`, as it is stored. A list's name may come several times.
        Raises SettingsError for a name that is none, ProviderRefused for a value that the model refuses."""
        raw: dict[str, Any] = {}
        for name, text in given:
            one = self.config.model_fields.get(name)
            if one is None:
                fields = ", ".join(self.config.model_fields)
                raise SettingsError(f"{self.a_source} has no setting {name[:60]!r}; it has {fields}")
            raw[name] = _typed(name, text, _shape(one.annotation), raw.get(name))
        return self.checked({**(known or {}), **raw})

    def checked(self, config: Mapping[str, object]) -> dict[str, object]:
        """`config` as the model takes it, in values that JSON has. Raises ProviderRefused naming every wrong field."""
        return read_config(self.config, config, self.title).model_dump(mode="json", exclude_unset=True)


def declaration_of(source_type: str) -> Declaration:
    """What the provider's package declares. Raises UnknownProvider naming those there are."""
    if source_type not in FACTORIES:
        raise UnknownProvider(f"no provider {source_type[:60]!r}; there are {', '.join(sorted(FACTORIES))}")
    try:
        found = import_module(f"kbsync.providers.{source_type}.setup").SETUP
    except ModuleNotFoundError as error:
        raise UnknownProvider(f"the provider {source_type} declares no setup.py") from error
    assert isinstance(found, Declaration)
    return found


def _choices(annotation: Any) -> tuple[str, ...]:
    """What a field allows, where that is a short list."""
    if get_origin(annotation) is Literal:
        return tuple(str(one) for one in get_args(annotation))
    return ()


def _shown(value: object) -> str:
    """A default as it would be typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _shape(annotation: Any) -> str:
    """How a field is typed by a person: `list`, `object` or `text`, which the model makes a number or a flag of."""
    origin = get_origin(annotation)
    if origin in (tuple, list, frozenset, set):
        return "list"
    if origin is dict:
        return "object"
    inner = [_shape(one) for one in get_args(annotation) if get_origin(one) is not None]
    return inner[0] if inner else "text"


def _typed(name: str, text: str, shape: str, before: Any) -> Any:
    if shape == "text":
        return text
    if text.lstrip().startswith("[" if shape == "list" else "{"):
        try:
            value = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{name}: not JSON ({error})") from None
    elif shape == "list":
        value = [part.strip() for part in text.split(",") if part.strip()]
    else:
        key, _, inner = text.partition("=")
        value = {key.strip(): inner.strip()}
    if before is None:
        return value
    return [*before, *value] if shape == "list" else {**before, **value}
