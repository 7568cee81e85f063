-- name: sources_progress
-- How each of the demo's sources stands, and whether its sync is still owed: an older run's status says nothing then.
select s.id, s.name, s.sync_status as status, s.sync_error as error,
    coalesce(u.ended_at is null or u.ended_at < u.requested_at, false) as owed
from knowledge_base_sources s
left join unnest($3::text[], $2::bigint[]) as asked (job_id, source_id) on asked.source_id = s.id
left join kbsync.unit_requests u on u.organization_id = s.organization_id and u.job_id = asked.job_id
where s.organization_id = $1 and s.id = any($2::bigint[])
order by s.id

-- name: documents_progress
-- How far documents, chunks and crawls are, in one row.
select
    count(*) as documents,
    count(*) filter (
        where d.last_synced_at is not null or d.content is not null or d.unreadable_reason is not null
    ) as documents_fetched,
    count(*) filter (where d.chunks_synced_at is not null or coalesce(d.content, '') = '') as documents_chunked,
    (select count(*) from document_chunks c
     join knowledge_base_documents of_source on of_source.id = c.source_id and of_source.organization_id = c.organization_id
     where c.organization_id = $1 and c.source_type = 'KnowledgeBaseDocument'
         and of_source.source_id = any($2::bigint[])) as chunks,
    (select count(*) from kbsync.crawl_task_urls u
     join knowledge_base_crawl_tasks t on t.id = u.crawl_task_id and t.organization_id = u.organization_id
     where u.organization_id = $1 and t.source_id = any($2::bigint[])) as urls_found,
    (select count(*) from kbsync.crawl_task_urls u
     join knowledge_base_crawl_tasks t on t.id = u.crawl_task_id and t.organization_id = u.organization_id
     where u.organization_id = $1 and t.source_id = any($2::bigint[]) and u.finished_at is not null) as urls_finished,
    coalesce(min(d.title), '') as a_title
from knowledge_base_documents d
where d.organization_id = $1 and d.source_id = any($2::bigint[]) and d.discarded_at is null
