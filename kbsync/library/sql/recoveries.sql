-- name: note_beat
-- One row for the deployment: when recovery last went through, and how long that took.
insert into kbsync.recovery_beat as beat (took_ms, stood_down) values ($1, $2)
on conflict (one) do update
set at = excluded.at, took_ms = excluded.took_ms, stood_down = excluded.stood_down;

-- name: last_beat
select first_at, at, took_ms, stood_down from kbsync.recovery_beat;

-- name: recovered_by_hour
-- What came back in each of the last $1 hours: by recovery's layers, and as `stalls` what workers took from dead ones.
with hours as (
    select generate_series(this - make_interval(hours => $1 - 1), this, interval '1 hour') as hour
    from (select date_trunc('hour', clock_timestamp() at time zone 'UTC') at time zone 'UTC' as this) now
)
select hours.hour, counted.name, sum(counted.amount)::bigint as amount
from hours
left join kbsync.hourly_counters counted
    on counted.hour = hours.hour and (counted.kind = 'recovery' or counted.name = 'stalls')
group by hours.hour, counted.name
order by hours.hour;
