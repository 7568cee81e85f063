-- name: insert_entry
-- One action of a person or a process; entries are only ever added.
insert into kbsync.audit_entries (actor, action, target, organization_id, reason, detail)
values ($1, $2, $3, $4, $5, $6::jsonb)
