from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import tests.mutations

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".cache", "__pycache__", ".*_cache", "*.egg-info", "node_modules")
TIME_LIMIT_S = 180
TESTS_FAILED = 1  # pytest's exit code


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    find: str
    replace: str
    tests: list[str]


def load() -> list[Mutation]:
    found = [
        Mutation(**entry)
        for path in sorted(Path(__file__).parent.glob("*.toml"))
        for entry in tomllib.loads(path.read_text())["mutation"]
    ]
    names = [mutation.name for mutation in found]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise SystemExit(f"two mutations are named {', '.join(sorted(doubled))}")
    return found


def verdict(tree: Path, mutation: Mutation) -> str:
    """`killed`, or why not."""
    path = tree / mutation.file
    original = path.read_text() if path.exists() else ""
    if original.count(mutation.find) != 1:
        return f"NOT FOUND ({original.count(mutation.find)} times in {mutation.file})"
    path.write_text(original.replace(mutation.find, mutation.replace))
    try:
        code = run_tests(tree, mutation.tests)
    finally:
        path.write_text(original)
    if code in (TESTS_FAILED, None):
        return "killed"
    return "SURVIVED" if code == 0 else f"BROKEN (pytest exit code {code})"


def run_tests(tree: Path, tests: list[str]) -> int | None:
    """pytest's exit code, None when it had to be stopped."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(
            command,
            cwd=tree,
            env=environment,
            timeout=TIME_LIMIT_S,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.mutations", description=tests.mutations.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="a name, or how names begin; may be repeated")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [m for m in load() if not options.only or any(m.name.startswith(name) for name in options.only)]
    if options.list:
        print("\n".join(f"{m.name:45} {m.file}" for m in chosen))
        return 0
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=LEFT_OUT, symlinks=True)
        for mutation in chosen:
            said = verdict(tree, mutation)
            alive += said != "killed"
            print(f"{said:10} {mutation.name}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} killed")
    return 1 if alive or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
