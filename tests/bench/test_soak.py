"""The soak: what counts as growth, and a few seconds of it over a whole stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.bench import growth, soak
from ops.bench.figures import Verdict
from ops.bench.soak_looks import Look, documents_of, register
from ops.bench.table import Options


@pytest.mark.spec("RB-05")
def test_steady_saw_toothed_and_falling_series_do_not_grow() -> None:
    assert growth.growth([100.0] * 40, small=0) == 1.0
    assert growth.growth([100.0, 400.0] * 20, small=0) == 1.0
    falling = growth.growth([float(200 - n) for n in range(40)], small=0)
    assert falling is not None
    assert falling < 1


@pytest.mark.spec("RB-05")
def test_a_leak_is_growth_and_a_warm_up_is_not() -> None:
    leaking = growth.checks({"memory of worker, MB": [100 + n for n in range(80)]})
    assert leaking[0].verdict is Verdict.SHORT
    warm = growth.checks({"memory of worker, MB": [50.0] * 15 + [100.0] * 65})
    assert warm[0].verdict is Verdict.OK


def test_too_few_samples_are_not_measured_and_small_differences_do_not_matter() -> None:
    assert growth.checks({"keys in Redis": [1.0] * 7})[0].verdict is Verdict.NOT_MEASURED
    assert growth.checks({"connections to Redis": [0, 0, 2, 2, 3, 3, 4, 4]})[0].verdict is Verdict.OK
    assert growth.checks({"jobs not ended": [0, 0, 0, 0, 300, 400, 500, 900]})[0].verdict is Verdict.SHORT


@pytest.mark.spec("RB-05")
def test_a_few_seconds_of_soak_sample_everything_that_could_grow(tmp_path: Path) -> None:
    with soak.stack_up(tmp_path) as stack:
        for number in range(12):
            soak.write(stack.documents, number)
        organization, source = register(stack.running.database_url, stack.documents)
        look = Look(stack.running, organization)
        stack.enqueue([{"type": "sync_source", "organization_id": organization, "source_id": source}])
        look.await_idle(30)
        known = documents_of(stack.running.database_url, organization)
        assert sorted(known.values()) == list(range(12))
        options = Options(tmp_path, say=lambda text: None)
        series, asked = soak.soak(stack, look, organization, known, per_second=4, minutes=0.05, options=options)
        assert asked >= 8
        assert look.failed() == 0
    names = {"memory of worker, MB", "memory of api, MB", "memory of scheduler, MB", "memory of Redis, MB"}
    names |= {"keys in Redis", "connections to Redis", "connections to Postgres", "dead tuples", "jobs not ended"}
    assert names <= series.keys()
    assert all(value > 0 for value in series["memory of worker, MB"])
    assert max(series["dead tuples"]) > 0
