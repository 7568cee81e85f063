"""The rule files as Prometheus reads them (OP-14)."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import ops

ALERTS = Path(ops.__file__).parent / "alerts"
RULES = sorted(ALERTS.glob("*.yml"))
ROOT = ALERTS.parents[1]


def rules() -> list[dict[str, Any]]:
    return [rule for path in RULES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.needs("promtool")
@pytest.mark.spec("OP-14")
def test_promtool_takes_the_rules_and_their_tests_pass() -> None:
    checked = promtool("check", "rules", "--lint-fatal", *map(str, RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tests = sorted((ALERTS / "tests").glob("*.yml"))
    tested = promtool("test", "rules", *map(str, tests))
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.needs("promtool")
@pytest.mark.spec("OP-14")
def test_those_tests_bite(tmp_path: Path) -> None:
    """An alert that fires for delayed jobs too, or a minute late, fails them."""
    (tmp_path / "tests").mkdir()
    for path in (ALERTS / "tests").glob("*.yml"):
        (tmp_path / "tests" / path.name).write_text(path.read_text())
    for right, wrong in (('outcome="failed"', 'outcome=~"failed|delayed"'), ("> 180", "> 300"), ("> 10\n", "> 100\n")):
        for path in RULES:
            assert right in path.read_text()
            (tmp_path / path.name).write_text(path.read_text().replace(right, wrong))
        assert promtool("test", "rules", *map(str, (tmp_path / "tests").glob("*.yml"))).returncode != 0, wrong


@pytest.mark.spec("OP-14")
def test_every_alert_is_unit_tested_once_named_and_says_what_to_do() -> None:
    names = Counter(rule["alert"] for rule in rules())
    assert set(names.values()) == {1}  # the same name twice would tell the same twice
    tested = {
        test["alertname"]
        for path in (ALERTS / "tests").glob("*.yml")
        for case in yaml.safe_load(path.read_text())["tests"]
        for test in case["alert_rule_test"]
        if test.get("exp_alerts")
    }
    assert tested == set(names)
    for rule in rules():
        words = " ".join(rule["annotations"].values())
        for runbook in {word.strip(".") for word in words.split() if word.startswith("ops/runbooks/")}:
            assert (ROOT / runbook).exists(), runbook
        assert "delayed" not in rule["expr"]
