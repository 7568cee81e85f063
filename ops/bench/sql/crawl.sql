-- name: crawled
-- How a source stands, and how much of it is searchable.
select source.sync_status, source.sync_error, count(document.id) as documents,
    count(document.id) filter (where document.chunks_synced_at is null) as without_chunks
from knowledge_base_sources source
left join knowledge_base_documents document
    on document.organization_id = $1 and document.source_id = source.id and document.discarded_at is null
where source.organization_id = $1 and source.id = $2
group by source.id;
