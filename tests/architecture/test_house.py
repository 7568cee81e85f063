"""The house: what the import contracts can't say. The contracts themselves run as `lint-imports` in `make check`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
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


def test_every_module_can_be_imported_alone() -> None:
    """A circle hides until somebody imports its other end first."""
    modules = [
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for p in python_files()
        if p.name not in {"__main__.py", "flipper_client.py"}
    ]
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    for loaded in [m for m in sys.modules if m.split('.')[0] in "
        f"{ROOMS!r}]:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *modules], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
