-- name: register_many
-- A batch of requests, all open from `$5` seconds ago (0: now). A request that comes again is open again; the newest asker
-- wins, so a wrong tenant's older request cannot shadow it. With `$6` false what is open is left as it is: its asker is
-- content with the run under way. Answers that moment, and of what was there before and was written: since when it is
-- open, and what that was before.
with moment as materialized (
    select clock_timestamp() - make_interval(secs => $5) as at
), written as (
    insert into kbsync.unit_requests as known (job_id, organization_id, kind, request, requested_at)
    select asked.job_id, asked.organization_id, asked.kind, asked.request, moment.at
    from moment, unnest($1::text[], $2::bigint[], $3::text[], $4::jsonb[]) as asked (job_id, organization_id, kind, request)
    order by asked.job_id -- one lock order, so that parallel batches cannot deadlock
    on conflict (job_id) do update
    set organization_id = excluded.organization_id,
        kind = excluded.kind,
        request = excluded.request,
        requested_at = greatest(known.requested_at, excluded.requested_at)
    where $6 or not (known.ended_at is null or known.ended_at < known.requested_at)
    returning job_id, requested_at, xmax <> 0 as was_there -- nobody has ever locked a new row
), renewed as (
    select written.job_id, written.requested_at, before.requested_at as previous
    from written
    join kbsync.unit_requests before on before.job_id = written.job_id -- as it was when this statement began
    where written.was_there
)
select moment.at, renewed.job_id, renewed.requested_at, renewed.previous
from moment
left join renewed on true;

-- name: withdraw_many
-- Takes back what was registered and then not accepted, unless somebody has asked for it again since.
with asked as (
    select job_id, requested_at, previous
    from unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) as asked (job_id, requested_at, previous)
    order by job_id
), removed as (
    delete from kbsync.unit_requests units
    using asked
    where units.job_id = asked.job_id and units.requested_at = asked.requested_at and asked.previous is null
)
update kbsync.unit_requests units
set requested_at = asked.previous
from asked
where units.job_id = asked.job_id and units.requested_at = asked.requested_at and asked.previous is not null;

-- name: end_if_open
-- A unit that no worker's own bookkeeping ends (a scan by hand): over, as of the start of the run that ended.
update kbsync.unit_requests
set ended_at = $2, ended_as = $3
where job_id = $1 and (ended_at is null or ended_at < $2);

-- name: open_past_grace
-- A keyset page of units that were accepted and have not ended since, oldest first (QR-08).
select job_id, organization_id, request, requested_at
from kbsync.unit_requests
where (ended_at is null or ended_at < requested_at)
    and requested_at < clock_timestamp() - make_interval(secs => $1)
    and (requested_at, job_id) > ($2, $3)
order by requested_at, job_id
limit $4;

-- name: oldest_open_of_each
-- The oldest open units past the grace of each organization after $2, $4 of each: a skip scan over the index, so that one
-- with a hundred thousand of them costs one look. Answers the next $3 organizations that have any.
with recursive organizations as (
    (
        select organization_id, 1 as place from kbsync.unit_requests
        where (ended_at is null or ended_at < requested_at) and organization_id > $2
        order by organization_id limit 1
    )
    union all
    select (
        select unit.organization_id from kbsync.unit_requests unit
        where (unit.ended_at is null or unit.ended_at < unit.requested_at)
            and unit.organization_id > organizations.organization_id
        order by unit.organization_id limit 1
    ), organizations.place + 1
    from organizations
    where organizations.organization_id is not null and organizations.place < $3
)
select organizations.organization_id, oldest.job_id, oldest.request, oldest.requested_at
from organizations
left join lateral (
    select job_id, request, requested_at from kbsync.unit_requests unit
    where (unit.ended_at is null or unit.ended_at < unit.requested_at)
        and unit.organization_id = organizations.organization_id
        and unit.requested_at < clock_timestamp() - make_interval(secs => $1)
    order by unit.requested_at, unit.job_id
    limit $4
) oldest on true
where organizations.organization_id is not null
order by organizations.organization_id, oldest.requested_at, oldest.job_id;

-- name: standing_of
-- Of these units: which are open still, and which ended as skipped. A unit without a row is absent.
select job_id,
    (ended_at is null or ended_at < requested_at) as open,
    coalesce(ended_as = 'skipped' and ended_at >= requested_at, false) as skipped
from kbsync.unit_requests
where job_id = any($1::text[]);

-- name: skipped_after
-- A keyset page of units whose last run was skipped: what a re-drive asks for again (KS-03).
select job_id, organization_id, request
from kbsync.unit_requests
where ended_as = 'skipped' and ended_at >= requested_at and job_id > $1
order by job_id
limit $2;

-- name: crawl_urls_unfinished
-- A keyset page of claimed URLs of running crawls that nobody finished within the grace. The spelling is the canonical one.
select urls.id, urls.organization_id, urls.crawl_task_id, urls.url
from kbsync.crawl_task_urls urls
join knowledge_base_crawl_tasks tasks
    on tasks.id = urls.crawl_task_id and tasks.organization_id = urls.organization_id
where urls.finished_at is null
    and urls.claimed_at < clock_timestamp() - make_interval(secs => $1)
    and tasks.status = 'running'
    and urls.id > $2
order by urls.id
limit $3;

-- name: crawl_urls_still_unfinished
-- Of these rows, those that nobody has finished since they were read.
select urls.id
from kbsync.crawl_task_urls urls
join knowledge_base_crawl_tasks tasks
    on tasks.id = urls.crawl_task_id and tasks.organization_id = urls.organization_id
where urls.id = any($1::bigint[]) and urls.finished_at is null and tasks.status = 'running';

-- name: crawls_pending
-- A keyset page of crawls that were made and never started, for a re-drive.
select id, organization_id
from knowledge_base_crawl_tasks
where status = 'pending' and id > $1
order by id
limit $2;

-- name: sources_syncing
-- A keyset page of sources that have said `syncing` for longer than the grace and that no live crawl explains (LS-12).
select id, organization_id, sync_started_at
from knowledge_base_sources sources
where sync_status = 'syncing'
    and coalesce(sync_started_at, updated_at) < clock_timestamp() - make_interval(secs => $1)
    and not exists (
        select from knowledge_base_crawl_tasks tasks
        where tasks.organization_id = sources.organization_id
            and tasks.source_id = sources.id
            and tasks.status in ('pending', 'running')
    )
    and id > $2
order by id
limit $3;

-- name: fail_source_if_still_syncing
-- The run that said `syncing` is gone. A run that began since has another start, and is left alone.
with failed as (
    update knowledge_base_sources
    set sync_status = 'failed', sync_error = 'interrupted', sync_error_at = now(), updated_at = now()
    where id = $1 and organization_id = $2 and sync_status = 'syncing' and sync_started_at is not distinct from $3
    returning id, organization_id
), ended as (
    update kbsync.source_runs run
    set ended_at = clock_timestamp(), outcome = 'failed', reason = 'interrupted'
    from failed
    where run.organization_id = failed.organization_id and run.source_id = failed.id and run.ended_at is null
)
select id from failed;

-- name: kept_sources_after
-- The tick's keyset page: every kept source that is not disabled and has not opted out; intercom only where it opted in (LS-03).
select id, organization_id
from knowledge_base_sources
where discarded_at is null and disabled_at is null
    and case when type = 'intercom' then daily_tick is true else daily_tick is not false end
    and id > $1
order by id
limit $2;

-- name: documents_without_chunks_after
-- The tick's second keyset page: kept documents with content and no chunks, intercom's only where its source opted in.
select documents.id, documents.organization_id
from knowledge_base_documents documents
left join knowledge_base_sources sources
    on sources.id = documents.source_id and sources.organization_id = documents.organization_id
where documents.discarded_at is null
    and documents.chunks_synced_at is null
    and documents.content is not null
    and documents.content <> ''
    and (coalesce(sources.type, documents.source_type) <> 'intercom' or sources.daily_tick is true)
    and documents.id > $1
order by documents.id
limit $2;
