"""SQL is kept in .sql files beside the module that runs it; this reads them.

A file holds statements, each under `-- name: the_name` and one or more lines of intent:

    -- name: extend_lease_if_fenced
    -- Only the live claimant moves its own deadline. Answers no row when superseded.
    update ...

Placeholders are asyncpg's `$1`. A test prepares every statement on the migrated schema, fails on names that no code uses,
and on SQL inside Python strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_NAME = re.compile(r"^-- name:\s*(\w+)\s*$", re.MULTILINE)


class Statements(Mapping[str, str]):
    """The statements of one .sql file by name. A wrong name is a KeyError that says which file was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8")
        parts = _NAME.split(text)
        self._by_name = {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
        if len(self._by_name) != len(parts) // 2:
            raise ValueError(f"{path}: a statement name is used twice")

    @classmethod
    def beside(cls, module_file: str, name: str | None = None) -> Statements:
        """`Statements.beside(__file__)` in x.py reads sql/x.sql next to it."""
        module = Path(module_file)
        return cls(module.parent / "sql" / f"{name or module.stem}.sql")

    def __getitem__(self, name: str) -> str:
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(f"no statement named {name!r} in {self.path}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def all_statement_files(root: Path) -> list[Path]:
    """Every .sql file with named statements below `root` (migrations have none)."""
    return sorted(path for path in root.rglob("sql/*.sql") if _NAME.search(path.read_text(encoding="utf-8")))
