-- name: found_by_number
-- The rows of this id, of one organization ($1) or of all (null).
select found.what, found.id, left(found.name, 300) as name, left(found.note, 300) as note, found.organization_id,
    coalesce(organizations.name, '') as organization
from (
    select 'source' as what, id, name, type as note, organization_id
    from knowledge_base_sources
    where id = $2 and discarded_at is null and ($1::bigint is null or organization_id = $1)
    union all
    select 'document', id, title, coalesce(url, ''), organization_id
    from knowledge_base_documents
    where id = $2 and discarded_at is null and ($1::bigint is null or organization_id = $1)
    union all
    select 'crawl', id, start_url, status, organization_id
    from knowledge_base_crawl_tasks
    where id = $2 and ($1::bigint is null or organization_id = $1)
    union all
    select 'organization', id, name, '', id
    from organizations
    where id = $2 and ($1::bigint is null or id = $1)
) found
left join organizations on organizations.id = found.organization_id;

-- name: sources_by_name
-- Kept sources with a pattern in their name.
select 'source' as what, sources.id, left(sources.name, 300) as name, sources.type as note, sources.organization_id,
    coalesce(organizations.name, '') as organization
from knowledge_base_sources sources
left join organizations on organizations.id = sources.organization_id
where sources.discarded_at is null and ($1::bigint is null or sources.organization_id = $1) and sources.name ilike $2
order by length(sources.name), sources.id
limit $3;

-- name: organizations_by_name
select 'organization' as what, id, left(name, 300) as name, '' as note, id as organization_id, name as organization
from organizations
where ($1::bigint is null or id = $1) and name ilike $2
order by length(name), id
limit $3;

-- name: documents_by_title_or_url
-- Kept documents whose title begins like $2 (up to, not with, $3), or whose address is $4: both are looks in an index.
select 'document' as what, found.id, left(found.title, 300) as name, left(coalesce(found.url, ''), 300) as note,
    found.organization_id, coalesce(organizations.name, '') as organization
from (
    (
        select id, title, url, organization_id
        from knowledge_base_documents
        where discarded_at is null and ($1::bigint is null or organization_id = $1)
            and lower(left(title, 100)) ~>=~ $2 and lower(left(title, 100)) ~<~ $3
        limit $5
    )
    union
    (
        select id, title, url, organization_id
        from knowledge_base_documents
        where discarded_at is null and ($1::bigint is null or organization_id = $1)
            and url is not null and md5(url) = md5($4) and url = $4
        limit $5
    )
) found
left join organizations on organizations.id = found.organization_id
order by length(found.title), found.id
limit $5;
