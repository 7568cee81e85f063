-- name: bound_time
-- The transaction's statements are given up after $1 (milliseconds, as text): a scrape never waits for a large count.
select set_config('statement_timeout', $1, true);

-- name: promises
-- Seconds since the oldest request that has not ended was made, since the oldest outbox row that waits was written (of the
-- organizations of $1, whose rows wait), and since the last scan finished; null where there is none. One look in an index each,
-- and in the outbox one an organization.
select extract(epoch from clock_timestamp() - (
        select requested_at
        from kbsync.unit_requests
        where ended_at is null or ended_at < requested_at
        order by requested_at, job_id
        limit 1
    ))::float8 as oldest_owed_s,
    extract(epoch from clock_timestamp() - (
        select min(oldest.created_at)
        from unnest($1::bigint[]) as waiting (organization_id)
        cross join lateral (
            select rows.created_at
            from kbsync.outbox rows
            where rows.relayed_at is null and rows.organization_id = waiting.organization_id
            order by rows.id
            limit 1
        ) oldest
    ))::float8 as oldest_outbox_s,
    extract(epoch from clock_timestamp() - (
        select max(finished_at) from kbsync.ticks
    ))::float8 as last_scan_s;

-- name: sources
-- By type, of the sources that the daily scan asks for: how many there are, failed, were not synced for $1 days, and the
-- longest time since one was synced (or made, when it never was).
select type, count(*) as sources,
    count(*) filter (where sync_status = 'failed') as failed,
    count(*) filter (
        where coalesce(last_synced_at, created_at) < clock_timestamp() - make_interval(days => $1)) as stale,
    extract(epoch from clock_timestamp() - min(coalesce(last_synced_at, created_at)))::float8 as oldest_s
from knowledge_base_sources
where discarded_at is null
    and case when type = 'intercom' then daily_tick is true else daily_tick is not false end
group by type;

-- name: documents_without_chunks
-- Kept documents with content and no chunks, intercom's only where its source opted in: a partial index holds just them.
select count(*)
from knowledge_base_documents documents
left join knowledge_base_sources sources
    on sources.id = documents.source_id and sources.organization_id = documents.organization_id
where documents.discarded_at is null
    and documents.chunks_synced_at is null
    and documents.content is not null
    and documents.content <> ''
    and (coalesce(sources.type, documents.source_type) <> 'intercom' or sources.daily_tick is true);
