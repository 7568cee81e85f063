-- name: insert_task_if_none_live
-- One live crawl a source; no row when there is one.
insert into knowledge_base_crawl_tasks (organization_id, source_id, start_url)
select $1, id, $3
from knowledge_base_sources
where organization_id = $1 and id = $2 and discarded_at is null
on conflict (organization_id, source_id) where status in ('pending', 'running') do nothing
returning id;

-- name: live_task_of_source
select id from knowledge_base_crawl_tasks
where organization_id = $1 and source_id = $2 and status in ('pending', 'running');

-- name: task_by_id
-- A crawl of a kept source.
select task.id, task.organization_id, task.source_id, task.start_url, task.status, task.urls_pending, task.urls_found,
    task.incomplete_reasons, task.notes, task.started_at
from knowledge_base_crawl_tasks task
join knowledge_base_sources source
    on source.id = task.source_id and source.organization_id = task.organization_id and source.discarded_at is null
where task.organization_id = $1 and task.id = $2;

-- name: task_for_update
-- The hot row of a crawl: whoever claims or counts URLs holds it, as the last thing of its transaction.
select id, organization_id, source_id, start_url, status, urls_pending, urls_found, incomplete_reasons, notes, started_at
from knowledge_base_crawl_tasks
where organization_id = $1 and id = $2
for no key update;

-- name: count_claimed
-- The increment of the claims of this transaction, with the reasons and notes that came up while claiming.
update knowledge_base_crawl_tasks
set urls_pending = urls_pending + $3, urls_found = urls_found + $3,
    incomplete_reasons = incomplete_reasons || array(
        select reason from unnest($4::text[]) reason where reason <> all (incomplete_reasons)),
    notes = notes || array(select note from unnest($5::text[]) note where note <> all (notes)),
    updated_at = now()
where organization_id = $1 and id = $2;

-- name: run_task_if_pending
-- Every seed is claimed: from now on a count of 0 is the end.
update knowledge_base_crawl_tasks
set status = 'running', started_at = coalesce(started_at, clock_timestamp()), updated_at = now(),
    config = case when $3::float8 is null then config else config || jsonb_build_object('crawl_delay_s', $3::float8) end
where organization_id = $1 and id = $2 and status = 'pending'
returning urls_pending;

-- name: complete_task
-- The end, once: nothing is pending and the seeds are all claimed.
update knowledge_base_crawl_tasks
set status = 'completed', finished_at = clock_timestamp(), updated_at = now()
where organization_id = $1 and id = $2 and status = 'running' and urls_pending = 0
returning id, organization_id, source_id, start_url, status, urls_pending, urls_found, incomplete_reasons, notes, started_at;

-- name: fail_task_if_pending
-- A crawl that could not start; one that runs lives on, as its URLs do. Those that were claimed already end with it, so that nothing stays pending. Rows of URLs are
-- taken before the crawl's, as everywhere: the count makes their update come first.
with ended as (
    update kbsync.crawl_task_urls
    set finished_at = clock_timestamp(), outcome = 'failed', detail = 'the crawl could not start'
    where organization_id = $1 and crawl_task_id = $2 and finished_at is null
        and exists (
            select from knowledge_base_crawl_tasks task
            where task.organization_id = $1 and task.id = $2 and task.status = 'pending'
        )
    returning id
)
update knowledge_base_crawl_tasks
set status = 'failed', error = $3, urls_pending = 0, finished_at = clock_timestamp(), updated_at = now()
from (select count(*) as urls from ended) as ended_first
where organization_id = $1 and id = $2 and status = 'pending' and ended_first.urls >= 0
returning source_id;
