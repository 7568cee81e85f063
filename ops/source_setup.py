"""A source as a person sets it up: what was typed, completed by questions, tried against the provider before it is kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from kbsync.domain.errors import ProviderRefused, SettingsError
from kbsync.providers.contract import Access, Checkable, Provider, SourceSetup
from kbsync.providers.declaration import Declaration, Secret
from kbsync.providers.registry import build
from kbsync.settings import Settings
from workers.runtime import provider_environment

# A question and whether the answer is hidden; answers what was typed.
Ask = Callable[[str, bool], str]

TRIES = 3
SECRETS_LIKE = 'one JSON object of texts, for example {"username": "u", "password": "p"}'


def read_secrets(text: str) -> dict[str, str]:
    """Raises SettingsError that repeats nothing of what was given."""
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not given or not all(isinstance(value, str) for value in given.values()):
        raise SettingsError(f"credentials are {SECRETS_LIKE}")
    return given


def secrets_in(files: Sequence[str]) -> dict[str, str]:
    """Secrets of `name=path` pairs, each file's whole text without its last line end. Raises SettingsError."""
    found: dict[str, str] = {}
    for one in files:
        name, sign, path = one.partition("=")
        if not sign or not name or not path:
            raise SettingsError("write --secret-file NAME=PATH; the secret itself never stands on the command line")
        try:
            found[name] = Path(path).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"the secret {name} can't be read from {path}: {type(error).__name__}") from None
    return found


def complete_pairs(
    declaration: Declaration, given: Sequence[tuple[str, str]], ask: Ask | None, *, choices: bool = False
) -> list[tuple[str, str]]:
    """`given` with what is needed and missing asked for; with `choices` also what a person chooses though it has a default.
    Raises SettingsError naming what is missing where nobody can be asked."""
    pairs = list(given)
    names = {name for name, _ in pairs}
    for name in [*(declaration.asked if choices and ask is not None else ()), *declaration.required]:
        if name in names:
            continue
        help = declaration.help.get(name, "")
        if ask is None:
            also = ", or as the second argument" if name == declaration.where else ""
            raise SettingsError(
                f"{declaration.a_source} needs {name}{f' ({help})' if help else ''}: --config {name}=...{also}"
            )
        pairs.append((name, ask(f"{name}{f' ({help})' if help else ''}", False)))
    return pairs


def complete_secrets(
    declaration: Declaration, given: Mapping[str, str], ask: Ask | None, config: Mapping[str, object] | None = None
) -> dict[str, str]:
    """`given` with what its way of signing in lacks asked for, secrets hidden; with the settings in `config` only some ways
    count. Raises SettingsError where nobody can be asked, and for a name that the provider does not know."""
    known = declaration.secret_names
    strange = [name for name in given if name not in known and not name.startswith("header_")]
    if strange:
        takes = ", ".join(known) or "no credentials"
        raise SettingsError(f"{declaration.a_source} has no credential {strange[0][:60]!r}; it takes {takes}")
    if not declaration.secrets or (not given and declaration.secrets_are_optional):
        return dict(given)
    all_ways = declaration.ways(config or {})
    if any(all(secret.name in given for secret in way) for way in all_ways):
        return dict(given)
    if declaration.secrets_are_optional and any(name.startswith("header_") for name in given):
        return dict(given)
    offered = [way for way in all_ways if all(secret.is_offered for secret in way)]
    ways = [way for way in offered if given.keys() <= {secret.name for secret in way}] or offered
    if ask is None:
        needed = ", or ".join(" and ".join(secret.name for secret in way) for way in ways)
        raise SettingsError(
            f"{declaration.a_source} needs {needed}: --credentials FILE (- reads standard input), or --secret-file"
        )
    way = ways[0] if len(ways) == 1 else _chosen(ways, ask)
    asked = {one.name: ask(f"{one.name} ({one.help})", not one.is_open) for one in way if one.name not in given}
    return {**given, **asked}


def _chosen(ways: Sequence[Sequence[Secret]], ask: Ask) -> Sequence[Secret]:
    words = "; ".join(f"{at}: {' and '.join(one.name for one in way)}" for at, way in enumerate(ways, 1))
    for _ in range(TRIES):
        answer = ask(f"Sign in with ({words})", False).strip()
        for at, way in enumerate(ways, 1):
            if answer in (str(at), *(one.name for one in way)):
                return way
    raise SettingsError(f"answer with a number from 1 to {len(ways)}")


@asynccontextmanager
async def provider_for(settings: Settings, source_type: str, setup: SourceSetup) -> AsyncIterator[Provider]:
    """A provider outside of any worker, closed afterwards with what it used. Raises ProviderRefused, CredentialsRefused."""
    environment = provider_environment(settings)
    try:
        provider = build(source_type, setup, environment)
        try:
            yield provider
        finally:
            await provider.close()
    finally:
        await environment.client.close()
        for client in environment.clients_of_sources.values():
            await client.close()


async def access_of(provider: Provider) -> Access:
    """Raises what `Checkable.check` raises."""
    if not isinstance(provider, Checkable):
        raise ProviderRefused(f"a source of {provider.name} can't be checked without syncing it")
    return await provider.check()
