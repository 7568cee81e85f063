-- Who changed a flag last is asked on every dashboard page: it must not read the whole audit.
-- old workers keep running: yes
create index audit_entries_by_target on kbsync.audit_entries (target, (coalesce(organization_id, 0)), id desc);
