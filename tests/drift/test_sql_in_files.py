"""SQL lives in .sql files (page "Architecture"): a statement inside a Python string is found here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("kbsync", "workers", "producers", "ratelimits", "ops")
# Bookkeeping of the migration runner, which runs before any .sql file may be trusted to match the schema; the roles and
# databases of embedded servers; and one health check.
ALLOWED = {Path("kbsync/db/migrate.py"), Path("kbsync/db/pool.py")}
SQL = re.compile(
    r"\bselect\b[\s\S]+\bfrom\b|\binsert\s+into\b|\bupdate\s+[\w.\"]+\s+(as\s+\w+\s+)?set\b|\bdelete\s+from\b"
    r"|\b(create|alter|drop)\s+(table|index|role|function|policy)\b|\btruncate\s+\w",
    re.IGNORECASE,
)


def docstrings(tree: ast.AST) -> set[int]:
    """The nodes of docstrings, by identity."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
    return found


def sql_strings(source: str) -> list[str]:
    """Strings of a module, docstrings aside, that begin like a statement and go on like one."""
    tree = ast.parse(source)
    skipped = docstrings(tree)
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in skipped
        and SQL.search(node.value)
        and re.match(r"\s*(with|select|insert|update|delete|create|alter|drop|truncate)\b", node.value, re.IGNORECASE)
    ]


def test_no_statement_lives_in_a_python_string() -> None:
    found = {
        str(path.relative_to(ROOT)): strings
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if path.relative_to(ROOT) not in ALLOWED and (strings := sql_strings(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_that_guard_bites() -> None:
    assert sql_strings('x = "select id from sources where id = $1"')
    assert sql_strings('x = f"update sources set name = {y}"')
    assert not sql_strings('"""select one from the list"""\nx = "Deleted from the list."')
