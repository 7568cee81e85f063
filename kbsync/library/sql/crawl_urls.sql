-- name: claimed_url
-- A claimed URL, how its crawl stands, what the library has of the page, and when that was read.
select clock_timestamp() as read_at, url.id, url.url, url.url_key, url.fetch_url, url.depth, url.finished_at is not null as is_finished,
    url.document_id as finished_document_id, task.status as task_status, task.source_id, source.type as source_type,
    source.config as source_config, source.data_source_id,
    document.id as document_id, document.etag, document.last_modified, document.links,
    document.content is not null and document.links is not null as may_be_unchanged
from kbsync.crawl_task_urls url
join knowledge_base_crawl_tasks task on task.id = url.crawl_task_id and task.organization_id = url.organization_id
join knowledge_base_sources source
    on source.id = task.source_id and source.organization_id = url.organization_id and source.discarded_at is null
left join knowledge_base_documents document
    on document.organization_id = url.organization_id and document.source_id = task.source_id
    and document.external_key = url.url_key and document.discarded_at is null
where url.organization_id = $1 and url.crawl_task_id = $2 and url.url_key = $3;

-- name: page_context
-- How many other pages of the crawl had this text, and which of these links are claimed already.
select
    (
        select count(*) from (
            select from kbsync.crawl_task_urls
            where organization_id = $1 and crawl_task_id = $2 and text_key = $3 and url_key <> $4
            limit $6
        ) same_text
    ) as same_text,
    array(
        select url_key from kbsync.crawl_task_urls
        where organization_id = $1 and crawl_task_id = $2 and url_key = any($5::text[])
    ) as claimed;

-- name: claim_context
-- Under the crawl's lock: which of these links are claimed by now, and how many URLs each pattern has, counted to $5.
select
    array(
        select url_key from kbsync.crawl_task_urls
        where organization_id = $1 and crawl_task_id = $2 and url_key = any($3::text[])
    ) as claimed,
    array(
        select (
            select count(*) from (
                select from kbsync.crawl_task_urls
                where organization_id = $1 and crawl_task_id = $2 and pattern_key = wanted.pattern_key
                limit $5
            ) same_pattern
        )
        from unnest($4::text[]) with ordinality as wanted (pattern_key, place)
        order by place
    ) as counts;

-- name: claim_many
-- The claim, once a URL and crawl, in one order. Before: the crawl's row is locked by this transaction.
insert into kbsync.crawl_task_urls
    (organization_id, crawl_task_id, url, url_key, fetch_url, parent_url, depth, pattern_key)
select $1, task.id, link.url, link.url_key, link.fetch_url, $3, $4, link.pattern_key
from knowledge_base_crawl_tasks task
cross join unnest($5::text[], $6::text[], $7::text[], $8::text[]) as link (url, url_key, fetch_url, pattern_key)
where task.organization_id = $1 and task.id = $2
order by link.url_key
on conflict (organization_id, crawl_task_id, url_key) do nothing
returning url_key;

-- name: finish_if_unfinished
-- The end of a URL, its unit, its follow-ups and its count, together: the row is finished once, so it is counted once. The
-- crawl's row is taken last. Answers what is pending, or no row when the URL was finished before.
with finished as (
    update kbsync.crawl_task_urls
    set finished_at = clock_timestamp(), outcome = $4, detail = $5, document_id = $6, text_key = $7
    where organization_id = $1 and crawl_task_id = $2 and url_key = $3 and finished_at is null
    returning crawl_task_id
), ended as (
    update kbsync.unit_requests unit
    set ended_at = $12, ended_as = $13
    from finished
    where unit.organization_id = $1 and unit.job_id = $11 and (unit.ended_at is null or unit.ended_at < $12)
), asked as (
    select follow_up.job_id, follow_up.kind, follow_up.request
    from finished
    cross join unnest($14::text[], $15::text[], $16::jsonb[]) as follow_up (job_id, kind, request)
    order by follow_up.job_id
), added as (
    insert into kbsync.unit_requests (job_id, organization_id, kind, request)
    select job_id, $1, kind, request from asked
    on conflict (job_id) do nothing
), known as (
    select job_id
    from kbsync.unit_requests
    where organization_id = $1 and job_id in (select job_id from asked)
    order by job_id
    for update
), again as (
    update kbsync.unit_requests unit
    set requested_at = clock_timestamp()
    from known
    where unit.organization_id = $1 and unit.job_id = known.job_id
)
update knowledge_base_crawl_tasks task
set urls_pending = task.urls_pending + $8 - 1, urls_found = task.urls_found + $8,
    incomplete_reasons = task.incomplete_reasons || array(
        select reason from unnest($9::text[]) reason where reason <> all (task.incomplete_reasons)),
    notes = task.notes || array(select note from unnest($10::text[]) note where note <> all (task.notes)),
    updated_at = now()
from finished
where task.organization_id = $1 and task.id = finished.crawl_task_id
returning task.urls_pending, task.urls_found;

-- name: children_after
-- A keyset page of what a URL claimed.
select id, url from kbsync.crawl_task_urls
where organization_id = $1 and crawl_task_id = $2 and md5(parent_url) = md5($3) and parent_url = $3 and id > $4
order by id
limit $5;

-- name: seeds_after
-- A keyset page of what the start of the crawl claimed.
select id, url from kbsync.crawl_task_urls
where organization_id = $1 and crawl_task_id = $2 and parent_url is null and id > $3
order by id
limit $4;

-- name: start_page
-- The first seed is the start page: it gave a page, or another page's name, or links at least.
select start.outcome in ('stored', 'unchanged', 'duplicate') or exists (
    select from kbsync.crawl_task_urls child
    where child.organization_id = $1 and child.crawl_task_id = $2 and md5(child.parent_url) = md5(start.url)
) as was_read, start.detail
from kbsync.crawl_task_urls start
where start.organization_id = $1 and start.crawl_task_id = $2 and start.parent_url is null
order by start.id
limit 1;
