-- name: unique_jobs_since
-- How many different jobs were asked for or ended since $1, by kind; a date's scan is a row of its own ledger.
select kind, count(*) as jobs
from kbsync.unit_requests
where requested_at >= $1 or ended_at >= $1
group by kind
union all
select 'scan', count(*) from kbsync.ticks where claimed_at >= $1 or finished_at >= $1 having count(*) > 0;

-- name: chunk_backlog
-- Kept documents with content and no chunks, intercom's only where its source opted in, by organization. `not_asked` are
-- those that nobody owes chunks now: content and the request for its chunks are written together. $1 begins a job's id.
select documents.organization_id, count(*) as documents,
    count(*) filter (where owed.job_id is null) as not_asked,
    min(documents.id) filter (where owed.job_id is null) as first_not_asked
from knowledge_base_documents documents
left join knowledge_base_sources sources
    on sources.id = documents.source_id and sources.organization_id = documents.organization_id
left join kbsync.unit_requests owed
    on owed.job_id = $1 || documents.id and (owed.ended_at is null or owed.ended_at < owed.requested_at)
where documents.discarded_at is null
    and documents.chunks_synced_at is null
    and documents.content is not null
    and documents.content <> ''
    and (coalesce(sources.type, documents.source_type) <> 'intercom' or sources.daily_tick is true)
group by documents.organization_id
order by not_asked desc, documents desc, documents.organization_id
limit $2;

-- name: stale_sources
-- Sources that failed or that nobody has synced for $1 days, never synced first; kept ones before discarded ones, which
-- stay as they are. One that opted out of the daily scan is stale on purpose, and listed only when it failed.
select id, organization_id, type, sync_status, last_synced_at, discarded_at
from knowledge_base_sources
where type <> 'intercom'
    and (
        sync_status = 'failed'
        or (coalesce(last_synced_at, created_at) < clock_timestamp() - make_interval(days => $1)
            and daily_tick is not false)
    )
order by discarded_at is not null, last_synced_at nulls first, id
limit $2;

-- name: legacy_jobs
-- The producer app's own jobs since $1, one row a class; no row when its table is not here.
select job_class, jobs, first_seen, last_seen, old_unfinished from kbsync.legacy_jobs($1);

-- name: newest_tick
-- The newest date that was claimed since $1.
select date, claimed_at, finished_at, skipped, counts
from kbsync.ticks
where claimed_at >= $1
order by date desc
limit 1;

-- name: tick_of
-- One date's scan.
select date, claimed_at, finished_at, skipped, counts from kbsync.ticks where date = $1;

-- name: sources_moving
-- Of the sources that the daily scan asks for: how many there are, and how many were synced since $1.
select count(*) as sources, count(*) filter (where last_synced_at >= $1) as moved
from knowledge_base_sources
where discarded_at is null
    and case when type = 'intercom' then daily_tick is true else daily_tick is not false end;

-- name: crawls_miscounted
-- `urls_pending` is the number of claimed and unfinished URLs; it is 0 at the end, and a running crawl's 0 is its end. Claims,
-- ends and counts commit together, so one statement never sees them apart.
with unfinished as (
    select organization_id, crawl_task_id, count(*) as urls
    from kbsync.crawl_task_urls
    where finished_at is null
    group by organization_id, crawl_task_id
)
select task.id, task.organization_id, task.status, task.urls_pending, coalesce(unfinished.urls, 0) as unfinished
from knowledge_base_crawl_tasks task
left join unfinished on unfinished.crawl_task_id = task.id and unfinished.organization_id = task.organization_id
where (task.status in ('pending', 'running') and task.urls_pending <> coalesce(unfinished.urls, 0))
    or (task.status = 'running' and task.urls_pending = 0)
    or (task.status in ('completed', 'failed') and task.urls_pending <> 0)
order by task.id
limit $1;

-- name: crawls_ended_unfinished
-- Ended crawls with URLs that nobody finished.
select task.id, task.organization_id, count(*) as unfinished
from kbsync.crawl_task_urls urls
join knowledge_base_crawl_tasks task on task.id = urls.crawl_task_id and task.organization_id = urls.organization_id
where urls.finished_at is null and task.status in ('completed', 'failed')
group by task.id, task.organization_id
order by task.id
limit $1;

-- name: double_chunks
-- A document's chunks have one row a position: two are two sets in one another.
select organization_id, source_id as document_id, position, count(*) as chunks
from document_chunks
where source_type = 'KnowledgeBaseDocument'
group by organization_id, source_type, source_id, position
having count(*) > 1
order by organization_id, source_id, position
limit $1;

-- name: chunks_without_document
-- Chunks that are still found although their document was discarded, is gone, or is another organization's.
select chunks.organization_id, chunks.source_id as document_id, count(*) as chunks
from document_chunks chunks
left join knowledge_base_documents documents
    on documents.id = chunks.source_id and documents.organization_id = chunks.organization_id
    and documents.discarded_at is null
where chunks.source_type = 'KnowledgeBaseDocument' and documents.id is null
group by chunks.organization_id, chunks.source_id
order by chunks.organization_id, chunks.source_id
limit $1;

-- name: documents_missing_chunks
-- Kept documents that say they are chunked, have text and have no chunk. The text is read only of those without one.
with suspects as materialized (
    select documents.id, documents.organization_id
    from knowledge_base_documents documents
    where documents.discarded_at is null and documents.chunks_synced_at is not null and documents.content <> ''
        and not exists (
            select from document_chunks chunks
            where chunks.organization_id = documents.organization_id
                and chunks.source_type = 'KnowledgeBaseDocument'
                and chunks.source_id = documents.id
        )
)
select documents.id, documents.organization_id, left(documents.content, 4000) as text
from suspects
join knowledge_base_documents documents on documents.id = suspects.id
where documents.content ~ '[^[:space:]]'
order by documents.id
limit $1;

-- name: outbox_waiting
-- Rows that wait for the relay for longer than $1 seconds, without the organizations $2 (paused).
select id, organization_id, created_at
from kbsync.outbox
where relayed_at is null
    and created_at < clock_timestamp() - make_interval(secs => $1)
    and organization_id <> all ($2::bigint[])
order by organization_id, id
limit $3;

-- name: search_rows_without_document
-- Rows of pg_search that name no kept document of their organization.
select search.id, search.organization_id, search.searchable_id as document_id
from pg_search_documents search
left join knowledge_base_documents documents
    on documents.id = search.searchable_id and documents.discarded_at is null
    and documents.organization_id = coalesce(search.organization_id, documents.organization_id)
where search.searchable_type = 'KnowledgeBaseDocument' and documents.id is null
order by search.id
limit $1;
