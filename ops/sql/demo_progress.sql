-- name: sources_progress
-- How each of the demo's sources stands.
select id, name, sync_status as status, sync_error as error
from knowledge_base_sources
where organization_id = $1 and id = any($2::bigint[])
order by id

-- name: documents_progress
-- How far documents, chunks and crawls are, in one row.
select
    count(*) as documents,
    count(*) filter (
        where d.last_synced_at is not null or d.content is not null or d.unreadable_reason is not null
    ) as documents_fetched,
    count(*) filter (where d.chunks_synced_at is not null or coalesce(d.content, '') = '') as documents_chunked,
    (select count(*) from document_chunks c where c.organization_id = $1) as chunks,
    (select count(*) from kbsync.crawl_task_urls u
     join knowledge_base_crawl_tasks t on t.id = u.crawl_task_id and t.organization_id = u.organization_id
     where u.organization_id = $1 and t.source_id = any($2::bigint[])) as urls_found,
    (select count(*) from kbsync.crawl_task_urls u
     join knowledge_base_crawl_tasks t on t.id = u.crawl_task_id and t.organization_id = u.organization_id
     where u.organization_id = $1 and t.source_id = any($2::bigint[]) and u.finished_at is not null) as urls_finished,
    coalesce(min(d.title), '') as a_title
from knowledge_base_documents d
where d.organization_id = $1 and d.source_id = any($2::bigint[]) and d.discarded_at is null
