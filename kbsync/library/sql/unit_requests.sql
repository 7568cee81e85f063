-- name: register_many
-- Follow-ups, open from the transaction that made them due. In one order, so that parallel batches cannot deadlock. A row
-- that another organization holds under this id can't be seen from here and is left alone.
with asked as (
    select job_id, kind, request
    from unnest($2::text[], $3::text[], $4::jsonb[]) as asked (job_id, kind, request)
    order by job_id
), added as (
    insert into kbsync.unit_requests (job_id, organization_id, kind, request)
    select job_id, $1, kind, request from asked
    on conflict (job_id) do nothing
    returning job_id
), known as (
    select job_id
    from kbsync.unit_requests
    where organization_id = $1 and job_id = any($2::text[])
    order by job_id
    for update
)
update kbsync.unit_requests
set requested_at = clock_timestamp()
from known
where kbsync.unit_requests.job_id = known.job_id and organization_id = $1
    -- A crawl is started once: asking again while its start is owed would owe a second one.
    and not (kind = 'start_crawl' and (ended_at is null or ended_at < requested_at));

-- name: end_run
-- The unit has ended, as of the start of its run: a request that came during the run stays open (QR-08).
update kbsync.unit_requests
set ended_at = $3, ended_as = $4
where organization_id = $1 and job_id = $2 and (ended_at is null or ended_at < $3);

-- name: end_now
-- As end_run, for an end that no run came to: skipped, abandoned.
update kbsync.unit_requests
set ended_at = clock_timestamp(), ended_as = $3
where organization_id = $1 and job_id = $2 and (ended_at is null or ended_at < requested_at);
