"""A source's config as its provider's model takes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kbsync.domain.errors import ProviderRefused

Config = TypeVar("Config", bound=BaseModel)
_ADDRESS = "^https?://"


def read_config(model: type[Config], config: Mapping[str, object], title: str) -> Config:
    """`title` is what people call the provider. Raises ProviderRefused naming every field that is wrong, without its value:
    one may hold a secret that was typed into the wrong place."""
    try:
        return model.model_validate(dict(config))
    except ValidationError as error:
        wrong = []
        for fault in error.errors(include_url=False, include_input=False):
            where = ".".join(map(str, fault["loc"])) or "config"
            wrong.append(f"{where}: {_in_words(fault['type'], fault['msg'], fault.get('ctx', {}))}")
        raise ProviderRefused(f"The {title} source is not set up right. {'; '.join(wrong)}") from None


def _in_words(kind: str, message: str, about: Mapping[str, Any]) -> str:
    match kind:
        case "missing":
            return "is needed"
        case "string_pattern_mismatch" if str(about["pattern"]).startswith(_ADDRESS):
            has_path = "/" not in about["pattern"][len(_ADDRESS) :].partition("[^")[2].partition("]")[0]
            return f"must be an address that begins with https:// or http://{'' if has_path else ', without a path'}"
        case "int_parsing" | "int_from_float":
            return "must be a whole number"
        case "float_parsing":
            return "must be a number"
        case "bool_parsing":
            return "must be yes or no"
        case "literal_error":
            return f"must be {about['expected']}"
        case "extra_forbidden":
            return "there is no such setting"
    return message.removeprefix("Value error, ")
