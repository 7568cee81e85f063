-- name: crawl_list
-- A keyset page of crawls of kept sources, newest first, of one organization or ($1 null, run as the fleet) of all.
select task.id, task.organization_id, organization.name as organization, task.source_id, source.name as source,
    task.start_url, task.status, task.urls_found, task.urls_pending, task.created_at, task.started_at, task.finished_at,
    task.incomplete_reasons, task.error
from (
    select * from knowledge_base_crawl_tasks
    where ($1::bigint is null or organization_id = $1) and id < $2 and ($3::bigint is null or organization_id = $3)
        and ($4::bigint is null or source_id = $4)
    order by id desc
    limit $6
) task
join organizations organization on organization.id = task.organization_id
join knowledge_base_sources source
    on source.organization_id = task.organization_id and source.id = task.source_id and source.discarded_at is null
where $5::text is null or task.status = $5
order by task.id desc
limit $7;

-- name: crawl_list_reach
-- Where a list of crawls stopped looking.
select id from knowledge_base_crawl_tasks
where ($1::bigint is null or organization_id = $1) and id < $2 and ($3::bigint is null or organization_id = $3)
    and ($4::bigint is null or source_id = $4)
order by id desc
offset $5 - 1 limit 1;

-- name: live_crawls
-- How many crawls have not ended, counted to $2, from the index that lets a source have one of them.
select count(*) from (
    select from knowledge_base_crawl_tasks
    where ($1::bigint is null or organization_id = $1) and status in ('pending', 'running')
    limit $2
) live;

-- name: crawl_page
-- One crawl of a kept source, and how its URLs ended: what was stored is the rest.
select task.id, task.organization_id, organization.name as organization, task.source_id, source.name as source,
    task.start_url, task.status, task.urls_found, task.urls_pending, task.created_at, task.started_at, task.finished_at,
    task.incomplete_reasons, task.error, task.notes, task.config, source.config as source_config,
    (
        select jsonb_object_agg(counted.outcome, counted.urls)
        from (
            select outcome, count(*) as urls from kbsync.crawl_task_urls
            where organization_id = $1 and crawl_task_id = $2 and outcome <> 'stored'
            group by outcome
        ) counted
    ) as outcomes
from knowledge_base_crawl_tasks task
join organizations organization on organization.id = task.organization_id
join knowledge_base_sources source
    on source.organization_id = task.organization_id and source.id = task.source_id and source.discarded_at is null
where task.organization_id = $1 and task.id = $2;

-- name: failure_reasons
-- The newest failed URLs by reason, with a few of each.
select coalesce(looked.detail, '') as detail, count(*) as count, (array_agg(looked.url order by looked.id))[1:3] as urls
from (
    select id, url, detail from kbsync.crawl_task_urls
    where organization_id = $1 and crawl_task_id = $2 and outcome = 'failed' and outcome <> 'stored'
    order by id desc
    limit $3
) looked
group by 1
order by 2 desc, 1
limit 20;

-- name: urls_by_outcome
-- A keyset page of the URLs that ended in a way other than being stored.
select id, url, url_key, parent_url, outcome, detail, finished_at, document_id
from kbsync.crawl_task_urls
where organization_id = $1 and crawl_task_id = $2 and outcome = $3 and outcome <> 'stored' and id > $4
order by id
limit $5;

-- name: nodes
-- URLs by their ids, each with how many it led to, counted to $4.
select node.id, node.url, node.url_key, node.parent_url, node.depth, node.outcome, node.detail, node.finished_at,
    node.document_id, below.children, below.failed, below.unfinished
from kbsync.crawl_task_urls node
cross join lateral (
    select count(*) as children, count(*) filter (where child.outcome = 'failed') as failed,
        count(*) filter (where child.outcome is null) as unfinished
    from (
        select outcome from kbsync.crawl_task_urls
        where organization_id = $1 and crawl_task_id = $2 and md5(parent_url) = md5(node.url) and parent_url = node.url
        limit $4
    ) child
) below
where node.organization_id = $1 and node.crawl_task_id = $2 and node.id = any($3::bigint[])
order by node.id;

-- name: id_of_url
-- One URL by its key.
select id from kbsync.crawl_task_urls where organization_id = $1 and crawl_task_id = $2 and url_key = $3;

-- name: seed_ids
-- A keyset page of what the start claimed.
select id from kbsync.crawl_task_urls
where organization_id = $1 and crawl_task_id = $2 and md5(parent_url) is null and id > $3
order by id
limit $4;

-- name: child_ids
-- The first URLs after $4 that each of $3 led to.
select child.id
from unnest($3::text[]) as parent (url)
cross join lateral (
    select id from kbsync.crawl_task_urls
    where organization_id = $1 and crawl_task_id = $2 and md5(parent_url) = md5(parent.url) and parent_url = parent.url
        and id > $4
    order by id
    limit $5
) child;

-- name: way_to_url
-- From a URL back to the seed that it was found from, $4 steps at most; answered from the seed on.
with recursive way as (
    select url, url_key, parent_url, 1 as step
    from kbsync.crawl_task_urls
    where organization_id = $1 and crawl_task_id = $2 and url_key = $3
    union all
    select parent.url, parent.url_key, parent.parent_url, way.step + 1
    from way
    join kbsync.crawl_task_urls parent
        on parent.organization_id = $1 and parent.crawl_task_id = $2
        and parent.url_key = encode(sha256(convert_to(way.parent_url, 'UTF8')), 'hex')
    where way.step < $4
)
select url, url_key from way order by step desc;
