"""Producers tell of their fallbacks: counted by the hour and for the alert, by producers only."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kbsync.api.fallbacks import PATH
from kbsync.library import counters
from kbsync.library.counters import Counted
from kbsync.library.principals import Role
from kbsync.telemetry import metrics
from ops.observe import throttle_storm
from producers.fallback_reports import FALLBACKS_PATH, reason_of
from tests.api.conftest import Api, new_token
from tests.telemetry.test_metrics import values


async def told(api: Api) -> int:
    async with api.database.fleet() as connection:
        found = await counters.totals(connection, datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
    return found[counters.PRODUCERS, Counted.FALLBACKS_REPORTED]


@pytest.mark.spec("OP-08")
async def test_a_report_is_counted_by_the_hour_and_as_a_metric(api: Api) -> None:
    before = values(metrics.render()).get(("kbsync_producer_fallbacks_total", ("server_error",)), 0)
    for count in (3, 2):
        body = {"count": count, "reason": reason_of(503)}
        async with api.client.post(FALLBACKS_PATH, json=body, headers=api.auth) as answer:
            assert (answer.status, await answer.read()) == (204, b"")
    assert await told(api) == 5
    assert values(metrics.render())["kbsync_producer_fallbacks_total", ("server_error",)] - before == 5
    assert not (await throttle_storm(api.database, 1)).rows  # they are no kind of job


@pytest.mark.spec("OP-08")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"count": 0, "reason": "refused"},
        {"count": -1, "reason": "refused"},
        {"count": "2", "reason": "refused"},
        {"count": 1_000_001, "reason": "refused"},
        {"count": 1, "reason": "ann@example.org"},
        {"count": 1, "reason": "refused", "organization_id": 7},
    ],
)
async def test_what_is_no_report_is_refused_and_not_counted(api: Api, body: dict[str, object]) -> None:
    async with api.client.post(PATH, json=body, headers=api.auth) as answer:
        assert answer.status == 422
        assert "ann@" not in await answer.text()
    assert await told(api) == 0


@pytest.mark.spec("OP-08", "SE-01")
async def test_only_a_producer_reports(api: Api) -> None:
    reader = (await new_token(api.database, Role.READER)).text
    headers = {"Authorization": f"Bearer {reader}"}
    async with api.client.post(PATH, json={"count": 1, "reason": "refused"}, headers=headers) as answer:
        assert answer.status == 403
    async with api.client.post(PATH, json={"count": 1, "reason": "refused"}) as answer:
        assert answer.status == 401
    assert await told(api) == 0
