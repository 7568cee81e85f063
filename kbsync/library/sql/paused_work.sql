-- name: skipped_since
-- Units whose last run was skipped since $1; counted up to $3, in a partial index of just them.
select count(*)
from (
    select 1
    from kbsync.unit_requests
    where ended_as = 'skipped' and ended_at >= requested_at and ended_at >= $1
        and ($2::bigint is null or organization_id = $2)
    limit $3
) counted;

-- name: to_redrive
-- What the re-drive's readers would find, without the organizations $1: the same rows, counted up to $2 each.
select (
    select count(*) from (
        select 1 from kbsync.unit_requests
        where ended_as = 'skipped' and ended_at >= requested_at and organization_id <> all ($1::bigint[])
        limit $2
    ) skipped
) as skipped, (
    select count(*) from (
        select 1
        from kbsync.crawl_task_urls urls
        join knowledge_base_crawl_tasks tasks
            on tasks.id = urls.crawl_task_id and tasks.organization_id = urls.organization_id
        where urls.finished_at is null and tasks.status = 'running' and urls.organization_id <> all ($1::bigint[])
        limit $2
    ) urls
) as urls, (
    select count(*) from (
        select 1 from knowledge_base_crawl_tasks
        where status = 'pending' and organization_id <> all ($1::bigint[])
        limit $2
    ) crawls
) as crawls;
