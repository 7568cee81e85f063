"""Fields from outside, which may be null, missing, empty or of another type. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def text_in(value: Any, name: str) -> str | None:
    """The trimmed text under `name`; None for what is no text, or none at all."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found.strip() or None if isinstance(found, str) else None


def moment(text: str | None) -> datetime | None:
    """An ISO 8601 moment with its zone; None for anything else."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None
