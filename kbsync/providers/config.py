"""A source's config as its provider's model takes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from kbsync.domain.errors import ProviderRefused

Config = TypeVar("Config", bound=BaseModel)


def read_config(model: type[Config], config: Mapping[str, object], title: str) -> Config:
    """`title` is what people call the provider. Raises ProviderRefused naming every field that is wrong, without its value:
    one may hold a secret that was typed into the wrong place."""
    try:
        return model.model_validate(dict(config))
    except ValidationError as error:
        wrong = []
        for fault in error.errors(include_url=False, include_input=False):
            where = ".".join(map(str, fault["loc"])) or "config"
            message = "is needed" if fault["type"] == "missing" else fault["msg"].removeprefix("Value error, ")
            wrong.append(f"{where}: {message}")
        raise ProviderRefused(f"The {title} source is not set up right. {'; '.join(wrong)}") from None
