-- name: stored_of_listed
-- How what is listed stands against what is stored, for those that are kept already; the same rules as a run's.
select known.external_key,
    case
        when listed.content_hash is not null then
            case when known.content_hash is distinct from listed.content_hash then 'changed' else 'unchanged' end
        when known.unreadable_reason is not null then 'unreadable'
        when known.last_synced_at is not null
            and (listed.version is distinct from known.synced_version
                or listed.changed_at is distinct from known.synced_changed_at) then 'changed'
        else 'unchanged'
    end as kind
from unnest($3::text[], $4::timestamptz[], $5::text[], $6::text[])
    as listed (external_key, changed_at, version, content_hash)
join knowledge_base_documents known
    on known.organization_id = $1 and known.source_id = $2 and known.external_key = listed.external_key
where known.discarded_at is null;

-- name: kept_keys_after
-- A keyset page of the source's kept documents, to see which of them a listing did not name.
select id, external_key, coalesce(nullif(title, ''), external_id) as title
from knowledge_base_documents
where organization_id = $1 and source_id = $2 and discarded_at is null and id > $3
order by id
limit $4;
