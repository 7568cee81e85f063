-- name: some_documents
-- $4 of the source's documents, every $3rd.
select id
from (
    select id, row_number() over (order by id) as number
    from knowledge_base_documents
    where organization_id = $1 and source_id = $2
) numbered
where (number - 1) % $3::bigint = 0
order by id
limit $4;

-- name: without_chunks
-- Every document has text and no chunks, as after a change of all of them.
update knowledge_base_documents
set content = coalesce(content, 'text'), chunks_synced_at = null
where organization_id = $1;

-- name: age_units
-- Whatever is owed has been owed for a day.
update kbsync.unit_requests set requested_at = requested_at - interval '1 day', ended_at = null, ended_as = null;
