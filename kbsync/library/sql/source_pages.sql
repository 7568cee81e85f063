-- name: source_list
-- A keyset page of kept sources, of one organization or ($1 null, run as the fleet) of all; $8 rows are looked at.
select source.id, source.organization_id, organization.name as organization, source.type, source.name, source.config,
    source.sync_status, source.sync_error, source.sync_error_at, source.sync_started_at, source.last_synced_at,
    source.daily_tick, source.disabled_at, source.sync_every_s, source.interval_asked_at, source.counts,
    case when source.removal_approved_at is null then (source.held_removal ->> 'count')::bigint end as held,
    live.id as crawl_id, live.urls_found as crawl_found, live.urls_pending as crawl_pending
from (
    select * from knowledge_base_sources
    where ($1::bigint is null or organization_id = $1) and ($4::bigint is null or organization_id = $4)
        and (organization_id, id) > ($2::bigint, $3::bigint) and discarded_at is null
    order by organization_id, id
    limit $8
) source
join organizations organization on organization.id = source.organization_id
left join lateral (
    select task.id, task.urls_found, task.urls_pending
    from knowledge_base_crawl_tasks task
    where task.organization_id = source.organization_id and task.source_id = source.id
        and task.status in ('pending', 'running')
    limit 1
) live on true
where ($5::text is null or source.type = $5)
    and case $6::text
        when 'held' then source.held_removal is not null and source.removal_approved_at is null
        else $6 is null or source.sync_status = $6
    end
    and ($7::text is null or source.name ilike $7 or source.config ->> 'start_url' ilike $7
        or source.config ->> 'path' ilike $7 or source.config ->> 'base_url' ilike $7)
order by source.organization_id, source.id
limit $9;

-- name: source_list_reach
-- Where a list stopped looking: the last of $5 rows, or none when there were fewer.
select organization_id, id from knowledge_base_sources
where ($1::bigint is null or organization_id = $1) and ($4::bigint is null or organization_id = $4)
    and (organization_id, id) > ($2::bigint, $3::bigint) and discarded_at is null
order by organization_id, id
offset $5 - 1 limit 1;

-- name: source_counts
-- How sources stand, each count to $2 at most, from indexes that hold few rows while all is well.
select
    (select count(*) from (
        select from knowledge_base_sources
        where ($1::bigint is null or organization_id = $1) and discarded_at is null limit $2) counted) as total,
    (select count(*) from (
        select from knowledge_base_sources
        where ($1::bigint is null or organization_id = $1) and discarded_at is null and sync_status <> 'synced'
            and sync_status = 'failed' limit $2) counted) as failed,
    (select count(*) from (
        select from knowledge_base_sources
        where ($1::bigint is null or organization_id = $1) and discarded_at is null and sync_status <> 'synced'
            and sync_status = 'syncing' limit $2) counted) as syncing,
    (select count(*) from (
        select from knowledge_base_sources
        where ($1::bigint is null or organization_id = $1) and discarded_at is null and sync_status <> 'synced'
            and sync_status = 'pending' limit $2) counted) as pending,
    (select count(*) from (
        select from knowledge_base_sources
        where ($1::bigint is null or organization_id = $1) and discarded_at is null and held_removal is not null
            and removal_approved_at is null limit $2) counted) as held;

-- name: source_page
-- One kept source, with its connection (never its credentials), its live crawl and its newest request.
select source.id, source.organization_id, organization.name as organization, source.type, source.name, source.config,
    source.sync_status, source.sync_error, source.sync_error_at, source.sync_started_at, source.last_synced_at,
    source.daily_tick, source.disabled_at, source.sync_every_s, source.interval_asked_at, source.counts,
    case when source.removal_approved_at is null then (source.held_removal ->> 'count')::bigint end as held,
    live.id as crawl_id, live.urls_found as crawl_found, live.urls_pending as crawl_pending, source.created_at,
    source.sync_run, source.held_removal, source.removal_approved_at, connection.id as data_source_id,
    connection.name as data_source, coalesce(connection.limits, '{}') as limits,
    coalesce(connection.sealed_credentials is not null, false) as has_credentials,
    unit.requested_at, unit.ended_at, unit.ended_as
from knowledge_base_sources source
join organizations organization on organization.id = source.organization_id
left join data_sources connection
    on connection.organization_id = source.organization_id and connection.id = source.data_source_id
    and connection.discarded_at is null
left join lateral (
    select task.id, task.urls_found, task.urls_pending
    from knowledge_base_crawl_tasks task
    where task.organization_id = source.organization_id and task.source_id = source.id
        and task.status in ('pending', 'running')
    limit 1
) live on true
left join kbsync.unit_requests unit on unit.organization_id = source.organization_id and unit.job_id = $3
where source.organization_id = $1 and source.id = $2 and source.discarded_at is null;

-- name: source_documents
-- A keyset page of a source's kept documents; $6 rows are looked at, and no text is read. Where the listing itself brings
-- the texts, a document that the last run saw was read by that run.
select document.id, document.title, document.url,
    coalesce(
        document.last_synced_at,
        case when document.seen_in_run = source.sync_run and document.content_hash is not null then source.last_synced_at end
    ) as last_synced_at,
    document.chunks_synced_at, document.unreadable_reason, coalesce(document.content <> '', false) as has_content,
    document.content_truncated as truncated, document.audience, document.audience_groups
from (
    select * from knowledge_base_documents
    where organization_id = $1 and source_id = $2 and discarded_at is null and id > $3
    order by id
    limit $6
) document
join knowledge_base_sources source on source.organization_id = document.organization_id and source.id = document.source_id
where ($4::text is null or document.title ilike $4 or document.url ilike $4)
    and case $5::text
        when 'unreadable' then document.unreadable_reason is not null
        when 'unread' then document.unreadable_reason is null and coalesce(document.content, '') = ''
        when 'unchunked' then document.chunks_synced_at is null and document.content <> ''
        when 'searchable' then document.chunks_synced_at is not null and document.audience <> 'unknown'
        else true
    end
order by document.id
limit $7;

-- name: source_documents_reach
-- Where a list of documents stopped looking.
select id from knowledge_base_documents
where organization_id = $1 and source_id = $2 and discarded_at is null and id > $3
order by id
offset $4 - 1 limit 1;

-- name: source_unread
-- How many of a source's newest $3 documents wait for their first reading.
select count(*) from (
    select last_synced_at, content_hash, unreadable_reason from knowledge_base_documents
    where organization_id = $1 and source_id = $2 and discarded_at is null
    order by id desc
    limit $3
) newest
where last_synced_at is null and content_hash is null and unreadable_reason is null;

-- name: source_sections
-- The first kept sections of a source, each with the one around it.
select section.title, parent.title as parent
from knowledge_base_sections section
left join knowledge_base_sections parent
    on parent.organization_id = section.organization_id and parent.id = section.parent_id
where section.organization_id = $1 and section.source_id = $2 and section.discarded_at is null
order by coalesce(parent.position, section.position), coalesce(parent.id, section.id), section.parent_id is not null,
    section.position, section.id
limit $3;

-- name: source_entries
-- What people did to one thing of an organization, newest first.
select at, actor, action, reason, detail
from kbsync.audit_entries
where organization_id = $1 and coalesce(organization_id, 0) = $1 and target = $2
order by id desc
limit $3;

-- name: source_names
-- An organization's first sources, for a choice.
select id, type, name from knowledge_base_sources
where organization_id = $1 and discarded_at is null
order by id
limit $2;
