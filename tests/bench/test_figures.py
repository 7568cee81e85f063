"""Verdicts and report lines: pure."""

from __future__ import annotations

import pytest

from kbsync.domain.errors import SettingsError
from ops.bench import report
from ops.bench.figures import Bar, Check, Figure, Row, Sample, Verdict, limit, ratio, sample
from ops.bench.table import TABLE, Measurement, chosen

OURS = Sample((50_000.0, 51_000.0, 34_000.0), "jobs/s")
RUN = report.Circumstances("2026-01-02 03:04 UTC", "make bench", ["Python 3.11"])


def drain(node: Sample | None, arq: Sample | None) -> Figure:
    checks = (ratio("BullMQ Node", OURS, node, 3), ratio("arq", OURS, arq, 30))
    return Figure("PF-01", "drain", checks, (Row("kbsync", OURS), Row("arq", arq, "npm is missing")), ("200 bytes",))


def test_a_line_says_each_ratio_its_target_and_the_verdict() -> None:
    figure = drain(Sample((14_705.0,)), Sample((1_219.5,)))
    assert report.line(figure) == "PF-01 drain: 3.4x BullMQ Node (target 3x), 41x arq (target 30x)  ok"


def test_a_missing_peer_is_never_ok() -> None:
    figure = drain(None, Sample((1_000.0,)))
    assert figure.verdict is Verdict.NOT_MEASURED
    assert report.line(figure).startswith("PF-01 drain: not measured BullMQ Node (target 3x), 50x arq")
    assert report.line(figure).endswith("  not measured")
    assert Figure("PF-01", "drain", ()).verdict is Verdict.NOT_MEASURED


def test_a_missed_bar_is_short_even_beside_a_missing_peer() -> None:
    assert drain(None, Sample((10_000.0,))).verdict is Verdict.SHORT


@pytest.mark.parametrize(
    ("kind", "at_bar", "met"),
    [(Bar.AT_LEAST, True, 4.0), (Bar.AT_MOST, True, 2.0), (Bar.ABOVE, False, 3.1), (Bar.BELOW, False, 2.9)],
)
def test_bars_at_and_beside_the_number(kind: Bar, at_bar: bool, met: float) -> None:
    assert (Check(" ms", 3.0, 3.0, kind).verdict is Verdict.OK) is at_bar
    assert Check(" ms", met, 3.0, kind).verdict is Verdict.OK
    assert Check(" ms", 6.0 - met, 3.0, kind).verdict is Verdict.SHORT


def test_the_median_decides_and_nothing_measured_is_none() -> None:
    check = limit("jobs/s", OURS, 50_000, Bar.AT_LEAST)
    assert check.verdict is Verdict.OK
    assert report.check_text(check) == "50,000 jobs/s (target 50,000)"
    assert sample([]) is None
    assert limit("jobs/s", None, 1, Bar.AT_LEAST).verdict is Verdict.NOT_MEASURED
    with pytest.raises(ValueError, match="at least one value"):
        Sample(())


def test_a_section_holds_line_table_notes_and_circumstances() -> None:
    text = report.section(drain(None, Sample((1_000.0,), "jobs/s")), RUN)
    assert text.startswith("## PF-01 drain\n\n    PF-01 drain: ")
    assert "| kbsync | 50,000 jobs/s | 34,000 | 51,000 | 3 |" in text
    assert "- 200 bytes\n- 2026-01-02 03:04 UTC, `make bench`\n- Python 3.11" in text
    assert "| arq | not measured: npm is missing |" in report._row(Row("arq", None, "npm is missing"))


def test_a_partial_run_replaces_its_own_sections_only() -> None:
    first = report.section(drain(None, None), RUN)
    other = report.section(Figure("PF-02", "I/O", (Check("x the loop", 0.97, 0.95),)), RUN)
    whole = report.merged("", [other, first])
    assert whole.index("## PF-01") < whole.index("## PF-02")
    again = report.section(drain(Sample((10_000.0,)), Sample((1_000.0,))), RUN)
    replaced = report.merged(whole, [again])
    assert other in replaced
    assert "not measured BullMQ" not in replaced
    assert replaced.splitlines().count("    PF-02 I/O: 0.97x the loop (target 0.95x)  ok") == 2  # summary and section
    assert report.merged(replaced, [again]) == replaced


def test_only_chooses_by_id_and_unknown_ids_are_refused() -> None:
    table = (Measurement("PF-01", "a"), Measurement("PF-02", "b"), Measurement("RB-05", "c", by_default=False))
    assert [one.id for one in chosen("", table)] == ["PF-01", "PF-02"]
    assert [one.id for one in chosen("rb-05, PF-01", table)] == ["PF-01", "RB-05"]
    with pytest.raises(SettingsError, match="nothing measures PF-99"):
        chosen("PF-99", table)
    assert len({one.id for one in TABLE}) == len(TABLE)
