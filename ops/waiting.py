"""Jobs that sleep until a slot that they hold, and should ask again because a limit has changed (RL-07)."""

from __future__ import annotations

from kbsync.domain.ids import QueueName, organization_tenant
from kbsync.domain.states import JobState
from kbsync.queue.fleet import Fleet, unavailable_if_redis_fails
from kbsync.queue.operators import Action, QueueOperator
from kbsync.queue.views import JobFilter
from ratelimits.limits import UnitKind
from ratelimits.throttle import full_window_words


async def ask_again(fleet: Fleet, organization_id: int, provider: str) -> int:
    """After: each job of the organization that waits for a slot of a full window of the provider is ready, and takes the
    earliest slot that the limit of now has. Answers how many. Other delays stay. Raises QueueUnavailable."""
    asking = 0
    async with unavailable_if_redis_fails(QueueName.SYNC):
        operator = QueueOperator(fleet.queue(QueueName.SYNC))
        for kind in UnitKind:
            where = JobFilter(tenant=organization_tenant(organization_id), reason=full_window_words(provider, kind))
            asking += (await operator.act_on_all(Action.PROMOTE, JobState.DELAYED, where)).done
    return asking
