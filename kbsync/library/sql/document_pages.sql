-- name: document_page
-- One document without its text, with its source and the newest crawl's row of its URL.
select document.id, document.organization_id, organization.name as organization, source.id as source_id,
    source.name as source, coalesce(source.type, document.source_type) as source_type, source.sync_status as source_status,
    document.external_id, document.title, document.url, document.language, octet_length(document.content) as bytes,
    document.content_hash, document.content_truncated as truncated, document.unreadable_reason, document.created_at,
    coalesce(document.last_synced_at, case when document.seen_in_run = source.sync_run then source.last_synced_at end)
        as last_synced_at,
    document.chunks_synced_at, document.discarded_at, document.source_changed_at,
    document.source_version, document.audience, document.audience_groups,
    (select count(*) from document_chunks chunk
        where chunk.organization_id = $1 and chunk.source_type = 'KnowledgeBaseDocument' and chunk.source_id = $2) as chunks,
    crawled.crawl_task_id as crawl_id, crawled.outcome as crawl_outcome, crawled.parent_url as found_on
from knowledge_base_documents document
join organizations organization on organization.id = document.organization_id
left join knowledge_base_sources source
    on source.organization_id = document.organization_id and source.id = document.source_id and source.discarded_at is null
left join lateral (
    select url.crawl_task_id, url.outcome, url.parent_url
    from (
        select task.id from knowledge_base_crawl_tasks task
        where task.organization_id = $1 and task.source_id = source.id
        order by task.id desc
        limit 5
    ) newest
    join kbsync.crawl_task_urls url
        on url.organization_id = $1 and url.crawl_task_id = newest.id and url.url_key = document.external_key
    order by newest.id desc
    limit 1
) crawled on true
where document.organization_id = $1 and document.id = $2
    and (document.source_id is null or source.id is not null);

-- name: document_text
-- The beginning of a kept document's text, for an asker ($4, $5) who may find it.
select coalesce(left(content, $3), '') as text, coalesce(length(content), 0) as characters
from knowledge_base_documents
where organization_id = $1 and id = $2 and discarded_at is null
    and kbsync.audience_allows(audience, audience_groups, $4, $5);

-- name: document_chunk_page
-- A page of a kept document's chunks by position, for an asker ($5, $6) who may find it.
select chunk.id, chunk.position, chunk.heading_path, chunk.anchor, chunk.content, chunk.language::text as language,
    chunk.partly_searchable, chunk.embedding is not null as has_embedding
from document_chunks chunk
join knowledge_base_documents document
    on document.organization_id = chunk.organization_id and document.id = chunk.source_id and document.discarded_at is null
where chunk.organization_id = $1 and chunk.source_type = 'KnowledgeBaseDocument' and chunk.source_id = $2
    and chunk.position > $3 and kbsync.audience_allows(document.audience, document.audience_groups, $5, $6)
order by chunk.position, chunk.id
limit $4;

-- name: origins
-- Where these documents come from.
select document.id, source.id as source_id, source.name as source,
    coalesce(source.type, document.source_type) as source_type, source.sync_status as source_status,
    coalesce(document.last_synced_at, case when document.seen_in_run = source.sync_run then source.last_synced_at end)
        as last_synced_at
from knowledge_base_documents document
left join knowledge_base_sources source
    on source.organization_id = document.organization_id and source.id = document.source_id and source.discarded_at is null
where document.organization_id = $1 and document.id = any($2::bigint[]);
