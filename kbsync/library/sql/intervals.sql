-- name: claim_due_intervals
-- Sources whose own interval is over, each to one asker: who asks next finds it an interval later.
with due as (
    select id
    from knowledge_base_sources
    where sync_every_s is not null and discarded_at is null and disabled_at is null
        and coalesce(interval_asked_at, created_at) <= clock_timestamp() - make_interval(secs => sync_every_s)
    order by id
    limit $1
    for no key update skip locked
)
update knowledge_base_sources source
set interval_asked_at = clock_timestamp()
from due
where source.id = due.id
returning source.id, source.organization_id;
