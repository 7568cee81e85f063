-- name: place_of_source
-- Whose quota a unit of this source uses, and the database's time: one row always, `found` only for a kept source.
select clock_timestamp() as started_at, source.id is not null as found, source.id as source_id, source.type as provider,
    source.data_source_id, data_source.limits, null::text as crawl_delay_s,
    coalesce(source.disabled_at is not null, false) as disabled
from (select) as one
left join knowledge_base_sources source
    on source.organization_id = $1 and source.id = $2 and source.discarded_at is null
left join data_sources data_source
    on data_source.organization_id = $1 and data_source.id = source.data_source_id;

-- name: place_of_document
-- As place_of_source, for a kept document of a kept source or of none.
select clock_timestamp() as started_at,
    document.id is not null and (document.source_id is null or source.id is not null) as found,
    source.id as source_id, source.type as provider, source.data_source_id, data_source.limits,
    null::text as crawl_delay_s,
    coalesce(source.disabled_at is not null, false) as disabled
from (select) as one
left join knowledge_base_documents document
    on document.organization_id = $1 and document.id = $2 and document.discarded_at is null
left join knowledge_base_sources source
    on source.organization_id = $1 and source.id = document.source_id and source.discarded_at is null
left join data_sources data_source
    on data_source.organization_id = $1 and data_source.id = source.data_source_id;

-- name: place_of_crawl
-- As place_of_source, for a crawl of a kept source.
select clock_timestamp() as started_at, source.id is not null as found, source.id as source_id, source.type as provider,
    source.data_source_id, data_source.limits, task.config ->> 'crawl_delay_s' as crawl_delay_s,
    false as disabled
from (select) as one
left join knowledge_base_crawl_tasks task on task.organization_id = $1 and task.id = $2
left join knowledge_base_sources source
    on source.organization_id = $1 and source.id = task.source_id and source.discarded_at is null
left join data_sources data_source
    on data_source.organization_id = $1 and data_source.id = source.data_source_id;
