-- name: copy_tenant
-- The first $4 documents of tenant $1 with their chunks, as those of tenant $2 and its source $3.
with copied as (
    insert into knowledge_base_documents
        (organization_id, source_id, source_type, external_id, title, url, content, language, content_hash, seen_in_run,
         last_synced_at, chunks_synced_at)
    select $2, $3, source_type, id::text, title, url, content, language, content_hash, 1, now(), now()
    from knowledge_base_documents
    where organization_id = $1
    order by id
    limit $4
    returning id, external_id
)
insert into document_chunks
    (organization_id, source_type, source_id, position, content, content_hash, heading_path, title, url, anchor,
     start_offset, end_offset, language, searchable)
select $2, chunk.source_type, copied.id, chunk.position, chunk.content, chunk.content_hash, chunk.heading_path, chunk.title,
    chunk.url, chunk.anchor, chunk.start_offset, chunk.end_offset, chunk.language, chunk.searchable
from copied
join document_chunks chunk on chunk.organization_id = $1 and chunk.source_id = copied.external_id::bigint;

-- name: chunk_count
select count(*) from document_chunks;

-- name: look_at_chunks
-- As autovacuum would within minutes.
analyze document_chunks, knowledge_base_documents;
