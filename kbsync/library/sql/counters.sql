-- name: add_many
-- Counts of one process on top of what the hour has. The hour is Postgres's own, so that all workers mean the same one.
insert into kbsync.hourly_counters as known (hour, kind, name, amount)
select date_trunc('hour', clock_timestamp() at time zone 'UTC') at time zone 'UTC', counted.kind, counted.name, counted.amount
from unnest($1::text[], $2::text[], $3::bigint[]) as counted (kind, name, amount)
order by counted.kind, counted.name -- one lock order, so that two workers' flushes cannot deadlock
on conflict (hour, kind, name) do update
set amount = known.amount + excluded.amount;

-- name: elsewhere_many
-- Of requests whose record was missing: how many, by kind, name a row that is another organization's (LS-06). Primary keys.
select asked.kind, count(*) as requests
from unnest($1::text[], $2::bigint[], $3::bigint[]) as asked (kind, organization_id, row_id)
where case
    when asked.kind = 'sync_source' then exists (
        select from knowledge_base_sources rows
        where rows.id = asked.row_id and rows.organization_id <> asked.organization_id)
    when asked.kind in ('sync_document', 'document_chunks') then exists (
        select from knowledge_base_documents rows
        where rows.id = asked.row_id and rows.organization_id <> asked.organization_id)
    else exists (
        select from knowledge_base_crawl_tasks rows
        where rows.id = asked.row_id and rows.organization_id <> asked.organization_id)
end
group by asked.kind;

-- name: remove_older
-- A batch of rows past their time, oldest first; rows that another process removes at this moment are left to it.
delete from kbsync.hourly_counters
where (hour, kind, name) in (
    select hour, kind, name
    from kbsync.hourly_counters
    where hour < clock_timestamp() - make_interval(days => $1)
    order by hour
    limit $2
    for update skip locked
);

-- name: totals_since
-- Sums by kind and name over whole hours, from the hour that holds $1 up to (not with) $2.
select kind, name, sum(amount)::bigint as amount
from kbsync.hourly_counters
where hour >= date_trunc('hour', $1::timestamptz at time zone 'UTC') at time zone 'UTC' and hour < $2
group by kind, name;

-- name: first_hour_since
-- Since when anything was counted; null when nothing was.
select min(hour) from kbsync.hourly_counters
where hour >= date_trunc('hour', $1::timestamptz at time zone 'UTC') at time zone 'UTC';
