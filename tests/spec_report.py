"""`make spec`: which spec lines have no proof. A proof is a test marked `@pytest.mark.spec("LS-15")`.

Reads the tests as text trees (nothing is imported or run), so it is quick and can't be fooled by a skipped import.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
MOST_PER_TEST = 3


@dataclass(frozen=True)
class Line:
    id: str
    says: str
    issue: int


def filed_lines(path: Path = TESTS / "spec_lines.toml") -> list[Line]:
    with path.open("rb") as file:
        return [Line(key, value["says"], value["issue"]) for key, value in tomllib.load(file).items()]


def proofs(root: Path = TESTS) -> dict[str, list[str]]:
    """Spec id -> the tests that prove it, as pytest names them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for test, ids in _marked(tree):
            name = f"{path.relative_to(root.parent)}::{test}"
            if len(ids) > MOST_PER_TEST:
                raise SystemExit(
                    f"{name} claims {len(ids)} spec lines; {MOST_PER_TEST} is the most that one test proves"
                )
            for spec_id in ids:
                found[spec_id].append(name)
    return found


def _marked(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            ids = [
                argument.value
                for decorator in node.decorator_list
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.spec"
                for argument in decorator.args
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            ]
            if ids:
                yield node.name, ids


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--issue", type=int, help="only the lines of one issue")
    parser.add_argument("--proofs", action="store_true", help="also print which test proves which line")
    wanted = parser.parse_args()
    proven = proofs()
    filed = filed_lines()
    unknown = sorted(set(proven) - {line.id for line in filed})
    lines = [line for line in filed if wanted.issue in (None, line.issue)]
    missing = [line for line in lines if line.id not in proven]
    if wanted.proofs:
        for line in lines:
            for test in proven.get(line.id, []):
                print(f"{line.id}  {test}")
    for line in missing:
        print(f"{line.id}  no proof  {line.says}  (issue {line.issue})")
    for spec_id in unknown:
        print(f"{spec_id}  is claimed by {proven[spec_id][0]} but not filed in tests/spec_lines.toml")
    print(f"{len(lines) - len(missing)} of {len(lines)} spec lines have a proof")
    return 1 if missing or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
