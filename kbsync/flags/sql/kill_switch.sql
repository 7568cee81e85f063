-- name: note_change
-- Who changed the flag last and why; owner and dates stay as they are, and are made again if the row was lost.
insert into kbsync.flag_notes (name, owner, purpose, created_on, review_by, changed_by, changed_at, reason)
values ($1, 'engineering', 'rollback of the Knowledge Library pipeline migration', '2026-09-09', '2026-12-08', $2, now(), $3)
on conflict (name) do update set changed_by = excluded.changed_by, changed_at = excluded.changed_at, reason = excluded.reason

-- name: audit_change
-- The same transaction as the flag: no change without its entry, no entry without its change.
insert into kbsync.audit_entries (actor, action, target, organization_id, reason) values ($1, $2, $3, $4, $5)

-- name: notes_of_flag
-- Overdue by the database's own date: every process says the same.
select owner, purpose, review_by, (now() at time zone 'utc')::date > review_by as overdue from kbsync.flag_notes where name = $1

-- name: last_changes
-- The latest change of a flag for everybody (organization_id null) and for each organization asked about.
select wanted.organization_id, latest.action, latest.actor, latest.reason, latest.at
from (select null::bigint as organization_id union all select unnest($2::bigint[])) wanted
cross join lateral (
    select action, actor, reason, at from kbsync.audit_entries entry
    where entry.target = $1 and coalesce(entry.organization_id, 0) = coalesce(wanted.organization_id, 0)
    order by entry.id desc limit 1
) latest
