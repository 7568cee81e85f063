-- name: quotas_by_id
-- Data sources with the name of the first source that uses each, and the last change of its limits.
select quotas.id, quotas.organization_id, quotas.provider, quotas.name, served.name as source, quotas.limits,
    changes.actor as changed_by, changes.at as changed_at
from data_sources quotas
left join lateral (
    select sources.name
    from knowledge_base_sources sources
    where sources.data_source_id = quotas.id and sources.organization_id = quotas.organization_id
        and sources.discarded_at is null
    order by sources.id
    limit 1
) served on true
left join lateral (
    select entries.actor, entries.at
    from kbsync.audit_entries entries
    where entries.target = 'data_source:' || quotas.id
        and coalesce(entries.organization_id, 0) = quotas.organization_id and entries.action = $2
    order by entries.id desc
    limit 1
) changes on true
where quotas.id = any($1::bigint[]) and quotas.discarded_at is null;

-- name: ids_with_limits
select id from data_sources where limits <> '{}' and discarded_at is null order by id limit $1;
