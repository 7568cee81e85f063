-- name: update_setup
-- What an editor changes of a source.
update knowledge_base_sources set name = $3, config = $4::jsonb, daily_tick = $5, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id;

-- name: set_interval
-- How often it is synced besides the daily tick; null: not. The first time is an interval from now.
update knowledge_base_sources
set sync_every_s = $3::integer, interval_asked_at = case when $3::integer is not null then clock_timestamp() end, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id;

-- name: set_disabled
-- Nobody asks its provider from now on, or somebody does again. No row when it stood so already.
update knowledge_base_sources
set disabled_at = case when $3::boolean then clock_timestamp() end, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null and (disabled_at is not null) <> $3::boolean
returning id;

-- name: disabled_sources
-- Which of an organization's sources nobody asks.
select id from knowledge_base_sources
where organization_id = $1 and discarded_at is null and disabled_at is not null;

-- name: schedule_of
-- When it is synced, and whether it is at all.
select daily_tick, sync_every_s, interval_asked_at, disabled_at
from knowledge_base_sources
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: what_it_holds
-- Everything that goes with a source, kept and discarded alike.
select
    (select count(*) from knowledge_base_documents where organization_id = $1 and source_id = $2) as documents,
    (
        select count(*) from document_chunks chunk
        join knowledge_base_documents document
            on document.organization_id = $1 and document.source_id = $2 and document.id = chunk.source_id
        where chunk.organization_id = $1 and chunk.source_type = 'KnowledgeBaseDocument'
    ) as chunks,
    (select count(*) from knowledge_base_sections where organization_id = $1 and source_id = $2) as sections,
    (select count(*) from knowledge_base_crawl_tasks where organization_id = $1 and source_id = $2) as crawls,
    (
        select count(*) from kbsync.crawl_task_urls url
        join knowledge_base_crawl_tasks task
            on task.organization_id = $1 and task.source_id = $2 and task.id = url.crawl_task_id
        where url.organization_id = $1
    ) as crawl_urls,
    (select count(*) from kbsync.source_runs where organization_id = $1 and source_id = $2) as runs;

-- name: holds_up_to
-- The same for a page: each count to $3 at most, chunks to ten times that.
select
    (select count(*) from (
        select from knowledge_base_documents where organization_id = $1 and source_id = $2 limit $3) counted) as documents,
    (select count(*) from (
        select
        from (select id from knowledge_base_documents where organization_id = $1 and source_id = $2 limit $3) document
        join document_chunks chunk
            on chunk.organization_id = $1 and chunk.source_type = 'KnowledgeBaseDocument' and chunk.source_id = document.id
        limit $3 * 10) counted) as chunks,
    (select count(*) from (
        select from knowledge_base_sections where organization_id = $1 and source_id = $2 limit $3) counted) as sections,
    (select count(*) from (
        select from knowledge_base_crawl_tasks where organization_id = $1 and source_id = $2 limit $3) counted) as crawls,
    0::bigint as crawl_urls, 0::bigint as runs;

-- name: discard_source
-- The end begins: nobody runs it any more, and its newest run may not end or remove anything.
update knowledge_base_sources
set discarded_at = clock_timestamp(), sync_run = sync_run + 1, held_removal = null, removal_approved_at = null,
    updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id;

-- name: is_there
-- A source, discarded or not.
select true as there from knowledge_base_sources where organization_id = $1 and id = $2;

-- name: remove_documents
-- A batch of its documents with their chunks, search rows and sections' links.
with batch as (
    select id from knowledge_base_documents where organization_id = $1 and source_id = $2 order by id limit $3 for update
), chunks as (
    delete from document_chunks
    where organization_id = $1 and source_type = 'KnowledgeBaseDocument' and source_id in (select id from batch)
), search as (
    delete from pg_search_documents
    where organization_id = $1 and searchable_type = 'KnowledgeBaseDocument' and searchable_id in (select id from batch)
), gone as (
    delete from knowledge_base_documents where organization_id = $1 and id in (select id from batch) returning id
)
select count(*) from gone;

-- name: remove_crawl_urls
-- A batch of the URLs of its crawls.
with batch as (
    select url.id
    from knowledge_base_crawl_tasks task
    join kbsync.crawl_task_urls url on url.organization_id = $1 and url.crawl_task_id = task.id
    where task.organization_id = $1 and task.source_id = $2
    limit $3
), gone as (
    delete from kbsync.crawl_task_urls where organization_id = $1 and id in (select id from batch) returning id
)
select count(*) from gone;

-- name: remove_rest
-- What is left when documents and URLs are gone: crawls, sections, runs. Its connection goes when no other source has it.
with crawls as (
    delete from knowledge_base_crawl_tasks where organization_id = $1 and source_id = $2
), runs as (
    delete from kbsync.source_runs where organization_id = $1 and source_id = $2
)
delete from knowledge_base_sections where organization_id = $1 and source_id = $2;

-- name: remove_source
-- The source itself, and its connection with the credentials when no other source has it. No row while it holds documents.
with gone as (
    delete from knowledge_base_sources
    where organization_id = $1 and id = $2
        and not exists (select from knowledge_base_documents where organization_id = $1 and source_id = $2)
    returning data_source_id
)
select data_source_id, true as is_gone from gone;

-- name: remove_unused_connection
delete from data_sources
where organization_id = $1 and id = $2
    and not exists (select from knowledge_base_sources where organization_id = $1 and data_source_id = $2)
returning id;
