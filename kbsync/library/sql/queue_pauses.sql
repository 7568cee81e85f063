-- name: latest_pause
-- Who paused this queue last, and why.
select actor, reason, at from kbsync.audit_entries
where target = $1 and coalesce(organization_id, 0) = 0 and action = 'queue.paused'
order by id desc
limit 1
