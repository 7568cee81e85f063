"""A limit that is raised is felt by those who wait for a slot of the old one."""

from __future__ import annotations

import pytest

from kbsync.domain.errors import ProviderUnreachable
from kbsync.domain.ids import QueueName
from kbsync.domain.requests import SyncSource
from kbsync.domain.states import JobState
from kbsync.library import data_sources, sources
from kbsync.providers.contract import Content, ListedDocument, Provider, SourceSetup
from kbsync.queue.views import JobFilter
from kbsync.settings import Settings
from ops.waiting import ask_again
from ratelimits.limits import UnitKind
from ratelimits.throttle import full_window_words
from tests.acceptance.deployment import deployed, until
from tests.sync.toy import ToyListing

AN_HOUR = 3_600


@pytest.mark.spec("RL-07", "RL-04")
async def test_jobs_that_wait_for_a_slot_take_one_of_the_new_limit_and_other_delays_stay(settings: Settings) -> None:
    names = ["a", "b", "c", "d", "broken"]
    provider = ToyListing(parts=[ListedDocument(name, title=name) for name in names])
    provider.contents.update({name: Content(f"# {name}", name) for name in names})
    provider.contents["broken"] = ProviderUnreachable("away")

    def build(source_type: str, setup: SourceSetup) -> Provider:
        return provider

    async with deployed(settings.model_copy(update={"first_backoff_s": AN_HOUR}), build_provider=build) as fleet:
        organization = await fleet.organization()
        source = await fleet.source(organization, "notion", {}, {"document_sync": {"count": 1, "window_s": AN_HOUR}})
        await fleet.ask(SyncSource(organization_id=organization, source_id=source))
        queue = fleet.runtime.fleet.queue(QueueName.SYNC)
        waits = JobFilter(reason=full_window_words("notion", UnitKind.DOCUMENT_SYNC))

        async def four_wait() -> bool:
            return len((await queue.page(JobState.DELAYED, where=waits)).jobs) == 4

        await until(four_wait, "four wait for a slot")
        async with fleet.runtime.database.organization(organization) as connection:
            kept = await sources.get(connection, organization, source)
            assert kept is not None
            assert kept.data_source_id is not None
            raised = {"document_sync": {"count": 100, "window_s": AN_HOUR}}
            await data_sources.set_limits(connection, organization, kept.data_source_id, raised)
        assert await ask_again(fleet.runtime.fleet, organization + 1, "notion") == 0
        assert await ask_again(fleet.runtime.fleet, organization, "notion") == 4

        async def only_the_broken_one_waits() -> bool:
            counts = await queue.counts()
            return (counts.waiting, counts.active, counts.delayed) == (0, 0, 1)

        await until(only_the_broken_one_waits, "the others are done")
        assert await ask_again(fleet.runtime.fleet, organization, "notion") == 0
        (left,) = (await queue.page(JobState.DELAYED)).jobs
        assert left.reason == "attempt 1 failed: kbsync.domain.errors.ProviderUnreachable"
