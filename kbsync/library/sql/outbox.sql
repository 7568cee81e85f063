-- name: organizations_waiting
-- Whose rows wait: a skip scan over the index, so that a million held rows of one organization cost one look.
with recursive waiting as (
    (
        select organization_id from kbsync.outbox where relayed_at is null order by organization_id limit 1
    )
    union all
    select (
        select rows.organization_id
        from kbsync.outbox rows
        where rows.relayed_at is null and rows.organization_id > waiting.organization_id
        order by rows.organization_id
        limit 1
    )
    from waiting
    where waiting.organization_id is not null
)
select organization_id from waiting where organization_id is not null;

-- name: claim_unrelayed
-- Rows by state, never by position: one that was committed late has an id below others that are relayed already. The row
-- locks keep relays apart, and are gone with a relay that dies. `$2` rows of each organization, oldest first.
select rows.id, rows.organization_id, rows.request
from unnest($1::bigint[]) as wanted (organization_id)
cross join lateral (
    select id, outbox.organization_id, request
    from kbsync.outbox
    where outbox.relayed_at is null and outbox.organization_id = wanted.organization_id
    order by id
    limit $2
    for update skip locked
) rows;

-- name: mark_relayed_many
-- The claimed rows with what became of each; `refusal` says in words why a row could not be a request.
update kbsync.outbox
set relayed_at = clock_timestamp(), outcome = ended.outcome, refusal = ended.refusal
from unnest($1::bigint[], $2::text[], $3::text[]) as ended (id, outcome, refusal)
where outbox.id = ended.id and outbox.relayed_at is null;
