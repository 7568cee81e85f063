-- name: place_of_asset
-- Whom to ask for an asset: of a kept document that the asker ($4, $5) may find, whose text names it ($3), of a kept source.
select document.organization_id, source.id, source.type, source.config, source.data_source_id, data_source.limits,
    document.external_id, document.url
from knowledge_base_documents document
join knowledge_base_sources source
    on source.organization_id = $1 and source.id = document.source_id and source.discarded_at is null
left join data_sources data_source
    on data_source.organization_id = $1 and data_source.id = source.data_source_id
where document.organization_id = $1 and document.id = $2 and document.discarded_at is null
    and kbsync.audience_allows(document.audience, document.audience_groups, $4, $5)
    and position($3 in document.content) > 0;
