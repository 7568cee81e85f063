-- name: one_asks_at_a_time
-- Two people who ask for the same thing at once get one action: held until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('kbsync.bulk_actions', 0))

-- name: same_unfinished
-- The action under way that does exactly this.
select id from kbsync.bulk_actions
where finished_at is null and queue = $1 and action = $2 and state = $3
  and kind is not distinct from $4 and tenant is not distinct from $5 and error is not distinct from $6
  and after_ms is not distinct from $7 and before_ms is not distinct from $8
order by id
limit 1

-- name: insert_action
-- Asked for; whoever runs such actions takes it up.
insert into kbsync.bulk_actions
    (queue, action, state, kind, tenant, error, after_ms, before_ms, actor, expected, cursor)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
returning id

-- name: take_next
-- The oldest unfinished action that nobody holds any more becomes this holder's.
update kbsync.bulk_actions set holder = $1, held_until = clock_timestamp() + make_interval(secs => $2::float8)
where id = (
    select id from kbsync.bulk_actions
    where finished_at is null and (held_until is null or held_until < clock_timestamp())
    order by id
    limit 1
    for update skip locked
)
returning *

-- name: hold_on
-- The holder lives. Answers no row when another one has it.
update kbsync.bulk_actions set held_until = clock_timestamp() + make_interval(secs => $3::float8)
where id = $1 and holder = $2 and finished_at is null
returning id

-- name: let_go
-- The holder stops in good order: the next one may take it up at once.
update kbsync.bulk_actions set held_until = null, holder = null where id = $1 and holder = $2 and finished_at is null

-- name: note_progress
-- What is settled so far, and what the holder is about to act on. Answers no row when another one has it.
update kbsync.bulk_actions set matched = $3, done = $4, refused = $5::jsonb, examples = $6::jsonb, cursor = $7, in_hand = $8
where id = $1 and holder = $2 and finished_at is null
returning id

-- name: finish_action
-- Nothing is left to do, or it can't be done (`fault`). Answers no row when another one has it.
update kbsync.bulk_actions set matched = $3, done = $4, refused = $5::jsonb, examples = $6::jsonb, fault = $7,
    in_hand = '{}', held_until = null, holder = null, finished_at = clock_timestamp()
where id = $1 and holder = $2 and finished_at is null
returning id

-- name: action_by_id
-- One action as it stands.
select *, held_until > clock_timestamp() as held from kbsync.bulk_actions where id = $1 and queue = $2

-- name: latest_of_queue
-- The newest actions on a queue.
select *, held_until > clock_timestamp() as held from kbsync.bulk_actions where queue = $1 order by id desc limit $2
