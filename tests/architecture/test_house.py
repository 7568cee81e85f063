"""The house: what the import contracts can't say. The contracts themselves run as `lint-imports` in `make check`."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ["kbsync", "workers", "producers", "ratelimits", "migrations", "ops"]
MAY_READ_THE_ENVIRONMENT = {
    Path("kbsync/settings.py"),
    Path("ops/state.py"),
    Path("ops/cli/context.py"),
    Path("ops/cli/processes.py"),
    Path("ops/chaos.py"),
    Path("ops/bench/processes.py"),
}
TOP_LEVEL = {
    "pyproject.toml", "kbsync", "workers", "producers", "ratelimits", "migrations", "tests", "ops", "README.md",
    "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "Makefile", ".ci", ".gitignore", "requirements.lock",
    "requirements-dev.lock", "requirements-redis4.lock",
}  # fmt: skip


def python_files() -> list[Path]:
    return [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


def reads_environment(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"} and ast.unparse(node.value) == "os"
        for node in ast.walk(tree)
    )


def test_the_environment_is_read_where_things_are_wired() -> None:
    readers = {p.relative_to(ROOT) for p in python_files() if reads_environment(ast.parse(p.read_text()))}
    assert readers <= MAY_READ_THE_ENVIRONMENT


def test_that_guard_bites() -> None:
    assert reads_environment(ast.parse("import os\nx = os.environ['A']"))


def test_only_the_wiring_opens_pools() -> None:
    openers = {
        str(p.relative_to(ROOT)).split("/")[0]
        for p in python_files()
        if re.search(r"Database\.open\(", p.read_text()) and p.name != "pool.py"
    }
    assert openers <= {"workers", "ops"}


def test_the_top_level_is_the_given_shape() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode == 0:
        assert {line.split("/")[0] for line in tracked.stdout.splitlines()} <= TOP_LEVEL


@pytest.mark.parametrize("suffix", [".py", ".sql", ".lua"])
def test_rooms_stay_small(suffix: str) -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for room in ROOMS
        for path in (ROOT / room).rglob(f"*{suffix}")
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert not long


def imported_at_once(path: Path, modules: set[str]) -> set[str]:
    """Which of our modules this one loads while it is loaded itself: imports in functions and for types only are left out."""
    found: set[str] = set()

    def look(body: Iterable[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.Import(names=names):
                    found.update(name.name for name in names)
                case ast.ImportFrom(module=str(module), names=names, level=0):
                    found.add(module)
                    found.update(f"{module}.{name.name}" for name in names)
                case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse):
                    look(orelse)
                case ast.If(body=inside, orelse=orelse):
                    look([*inside, *orelse])
                case ast.Try(body=inside, handlers=handlers, orelse=orelse, finalbody=final):
                    look([*inside, *(one for handler in handlers for one in handler.body), *orelse, *final])
                case ast.ClassDef(body=inside) | ast.With(body=inside):
                    look(inside)
                case _:
                    pass

    look(ast.parse(path.read_text()).body)
    parents = {".".join(name.split(".")[:n]) for name in found for n in range(1, name.count(".") + 1)}
    return (found | parents) & modules


def circle_in(imports: dict[str, set[str]]) -> list[str]:
    """The modules that load each other in a circle, with those that load them; empty when there is none."""
    left = {name: set(loads) - {name} for name, loads in imports.items()}
    while ready := [name for name, loads in left.items() if not loads]:
        for name in ready:
            del left[name]
        for loads in left.values():
            loads.difference_update(ready)
    return sorted(left)


def test_no_modules_load_each_other_in_a_circle() -> None:
    """A circle hides until somebody imports its other end first."""
    paths = {
        str(p.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__"): p for p in python_files()
    }
    imports = {name: imported_at_once(path, set(paths)) for name, path in paths.items()}
    for name, loads in imports.items():  # a package is loaded before what is in it: that is no circle
        loads.difference_update({".".join(name.split(".")[:n]) for n in range(1, name.count(".") + 1)})
    assert circle_in(imports) == []


def test_that_search_finds_circles() -> None:
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == ["a", "b", "c", "d"]
    assert circle_in({"a": {"b"}, "b": set()}) == []
