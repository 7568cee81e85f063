-- name: claim_tick_unless_finished
-- A date is claimed by one run at a time; the newest claim takes over where the last one stopped. No row: it is finished.
insert into kbsync.ticks as tick (date, claimed_by)
values ($1, $2)
on conflict (date) do update
set claimed_at = now(), claimed_by = excluded.claimed_by, skipped = false
where tick.finished_at is null
returning phase, after_id, counts;

-- name: advance_tick_if_claimed
-- How far the run has come. No row when another run has taken the date over.
update kbsync.ticks
set phase = $3, after_id = $4, counts = $5, finished_at = case when $3 = 'done' then now() end
where date = $1 and claimed_by = $2 and finished_at is null
returning date;

-- name: skip_tick_unless_finished
-- Ended under the kill switch: unfinished, but nobody drives it again by himself (KS-03).
insert into kbsync.ticks as tick (date, claimed_by, skipped)
values ($1, $2, true)
on conflict (date) do update
set claimed_by = excluded.claimed_by, skipped = true
where tick.finished_at is null;

-- name: tick_is_over
-- Whether a date's tick ended, finished or skipped. No row: nobody began it.
select finished_at is not null or skipped as over from kbsync.ticks where date = $1;

-- name: clock
select clock_timestamp();
