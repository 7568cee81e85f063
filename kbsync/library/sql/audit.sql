-- name: insert_entry
-- One action of a person or a process; entries are only ever added.
insert into kbsync.audit_entries (actor, action, target, organization_id, reason, detail)
values ($1, $2, $3, $4, $5, $6::jsonb)
;

-- name: entries_page
-- A keyset page, newest first, of what fits: actor $1, action $2, target $3 or its beginning $4, organization $5, from $6 up
-- to (not with) $7. The rows of the page are found first, then their organizations.
select entries.*, organizations.name as organization
from (
    select id, at, actor, action, target, organization_id, reason, detail
    from kbsync.audit_entries
    where ($1::text is null or actor = $1)
        and ($2::text is null or action = $2)
        and ($3::text is null or target = $3)
        and ($4::text is null or starts_with(target, $4))
        and ($5::bigint is null or organization_id = $5)
        and ($6::timestamptz is null or at >= $6)
        and ($7::timestamptz is null or at < $7)
        and ($8::timestamptz is null or (at, id) < ($8, $9::bigint))
    order by at desc, id desc
    limit $10
) entries
left join organizations on organizations.id = entries.organization_id
order by entries.at desc, entries.id desc;

-- name: known_actions
-- One look in the index for each action there is, however many entries.
with recursive known as (
    (select action as word from kbsync.audit_entries order by action limit 1)
    union all
    select (select action from kbsync.audit_entries where action > known.word order by action limit 1)
    from known
    where known.word is not null
)
select word from known where word is not null limit $1;

-- name: known_actors
-- As above, for actors.
with recursive known as (
    (select actor as word from kbsync.audit_entries order by actor limit 1)
    union all
    select (select actor from kbsync.audit_entries where actor > known.word order by actor limit 1)
    from known
    where known.word is not null
)
select word from known where word is not null limit $1;
