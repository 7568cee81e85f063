-- name: sources_standing
-- Of the kept sources that the daily scan asks for: how many, failed, not synced for $1 days, and furthest behind. `held`
-- counts removals that wait for a person.
select count(*) filter (where asked) as sources,
    count(*) filter (where sync_status = 'failed') as failed,
    count(*) filter (where asked and sync_status <> 'failed'
        and coalesce(last_synced_at, created_at) < clock_timestamp() - make_interval(days => $1)) as behind,
    min(coalesce(last_synced_at, created_at)) filter (where asked) as oldest,
    count(*) filter (where held_removal is not null and removal_approved_at is null) as held
from (
    select sync_status, last_synced_at, created_at, held_removal, removal_approved_at,
        case when type = 'intercom' then daily_tick is true else daily_tick is not false end as asked
    from knowledge_base_sources
    where discarded_at is null
) kept;

-- name: sources_behind
-- Failed sources, newest failure first, then those that were not synced for $1 days, furthest behind first.
select sources.id, sources.name, sources.type, coalesce(organizations.name, '') as organization,
    sources.sync_status as status, left(sources.sync_error, 300) as error, sources.sync_error_at as error_at,
    sources.last_synced_at
from (
    select *
    from knowledge_base_sources
    where discarded_at is null
        and (sync_status = 'failed'
            or (coalesce(last_synced_at, created_at) < clock_timestamp() - make_interval(days => $1)
                and case when type = 'intercom' then daily_tick is true else daily_tick is not false end))
    order by sync_status <> 'failed',
        case when sync_status = 'failed' then sync_error_at end desc nulls last,
        coalesce(last_synced_at, created_at), id
    limit $2
) sources
left join organizations on organizations.id = sources.organization_id
order by sources.sync_status <> 'failed',
    case when sources.sync_status = 'failed' then sources.sync_error_at end desc nulls last,
    coalesce(sources.last_synced_at, sources.created_at), sources.id;

-- name: held_removals
-- What complete listings would remove and nobody has approved.
select sources.id, sources.name, sources.type, coalesce(organizations.name, '') as organization,
    sources.held_removal ->> 'count' as count, sources.held_removal ->> 'of' as of, sources.held_removal ->> 'since' as since
from knowledge_base_sources sources
left join organizations on organizations.id = sources.organization_id
where sources.discarded_at is null and sources.held_removal is not null and sources.removal_approved_at is null
order by sources.id
limit $1;

-- name: crawls_under_way
-- Crawls that have not ended, the newest first: a partial index holds just them.
select tasks.id, left(tasks.start_url, 300) as start_url, coalesce(organizations.name, '') as organization, tasks.status,
    tasks.urls_found as found, tasks.urls_pending as pending, coalesce(tasks.started_at, tasks.created_at) as began_at
from knowledge_base_crawl_tasks tasks
left join organizations on organizations.id = tasks.organization_id
where tasks.status in ('pending', 'running')
order by tasks.id desc
limit $1;

-- name: last_tick
select date, claimed_at, finished_at, skipped, counts from kbsync.ticks order by date desc limit 1;
