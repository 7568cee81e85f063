-- name: discard_sources
-- The end begins: no unit of this organization runs any more, and nobody asks for one.
update knowledge_base_sources set discarded_at = coalesce(discarded_at, clock_timestamp()), sync_run = sync_run + 1
where organization_id = $1;

-- name: orphan_sections
-- Sections point to one another: a batch of them may then go in any order.
update knowledge_base_sections set parent_id = null where organization_id = $1 and parent_id is not null;

-- name: jobs_of_organization
-- Which of these jobs were ever this organization's, as far as the ledger knows.
select job_id from kbsync.unit_requests where organization_id = $1 and job_id = any($2::text[]);

-- name: job_ids_after
-- A keyset page of the organization's jobs.
select job_id from kbsync.unit_requests where organization_id = $1 and job_id > $2 order by job_id limit $3;

-- name: erase_document_chunks
-- A batch.
delete from document_chunks
where id in (select id from document_chunks where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_pg_search_documents
-- A batch.
delete from pg_search_documents
where id in (select id from pg_search_documents where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_knowledge_base_document_sections
-- A batch.
delete from knowledge_base_document_sections
where id in (select id from knowledge_base_document_sections where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_knowledge_base_documents
-- A batch.
delete from knowledge_base_documents
where id in (select id from knowledge_base_documents where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_crawl_task_urls
-- A batch.
delete from kbsync.crawl_task_urls
where id in (select id from kbsync.crawl_task_urls where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_knowledge_base_crawl_tasks
-- A batch.
delete from knowledge_base_crawl_tasks
where id in (select id from knowledge_base_crawl_tasks where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_knowledge_base_sections
-- A batch.
delete from knowledge_base_sections
where id in (select id from knowledge_base_sections where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_source_runs
-- A batch.
delete from kbsync.source_runs
where id in (select id from kbsync.source_runs where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_knowledge_base_sources
-- A batch.
delete from knowledge_base_sources
where id in (select id from knowledge_base_sources where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_data_sources
-- A batch.
delete from data_sources
where id in (select id from data_sources where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_outbox
-- A batch.
delete from kbsync.outbox
where id in (select id from kbsync.outbox where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_unit_requests
-- A batch.
delete from kbsync.unit_requests
where job_id in (select job_id from kbsync.unit_requests where organization_id = $1 limit $2) and organization_id = $1;

-- name: erase_rest
-- Audit, people, gates and the organization itself. Run as the fleet.
select went, is_done from kbsync.erase_organization_rest($1, $2);

-- name: rows_left
-- Every table that holds anything of an organization, with how much. Run as the fleet.
select 'document_chunks' as place, count(*) as rows from document_chunks where organization_id = $1
union all select 'pg_search_documents', count(*) from pg_search_documents where organization_id = $1
union all select 'knowledge_base_document_sections', count(*) from knowledge_base_document_sections where organization_id = $1
union all select 'knowledge_base_documents', count(*) from knowledge_base_documents where organization_id = $1
union all select 'kbsync.crawl_task_urls', count(*) from kbsync.crawl_task_urls where organization_id = $1
union all select 'knowledge_base_crawl_tasks', count(*) from knowledge_base_crawl_tasks where organization_id = $1
union all select 'knowledge_base_sections', count(*) from knowledge_base_sections where organization_id = $1
union all select 'kbsync.source_runs', count(*) from kbsync.source_runs where organization_id = $1
union all select 'knowledge_base_sources', count(*) from knowledge_base_sources where organization_id = $1
union all select 'data_sources', count(*) from data_sources where organization_id = $1
union all select 'kbsync.outbox', count(*) from kbsync.outbox where organization_id = $1
union all select 'kbsync.unit_requests', count(*) from kbsync.unit_requests where organization_id = $1
union all select 'kbsync.audit_entries', count(*) from kbsync.audit_entries where organization_id = $1
union all select 'kbsync.principals', count(*) from kbsync.principals where organization_id = $1
union all select 'organizations', count(*) from organizations where id = $1
union all select 'kbsync.bulk_actions', count(*) from kbsync.bulk_actions where tenant = 'org-' || $1::bigint
union all select 'flipper_gates', count(*) from flipper_gates where key = 'actors' and value = 'Organization;' || $1::bigint
order by 1;
