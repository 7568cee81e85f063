-- What the dashboard looks at: the last recovery pass, what a pause has skipped, the audit by who and what, documents by name.
-- old workers keep running: yes
create table kbsync.recovery_beat (
    one boolean primary key default true check (one),
    first_at timestamptz not null default clock_timestamp(),
    at timestamptz not null default clock_timestamp(),
    took_ms integer not null check (took_ms >= 0),
    stood_down boolean not null default false
);
grant select, insert, update on kbsync.recovery_beat to kbsync_fleet;

-- While the kill switch is on, every page says how many units it has skipped since.
create index unit_requests_skipped on kbsync.unit_requests (ended_at, organization_id)
    where ended_as = 'skipped' and ended_at >= requested_at;

create index audit_entries_by_actor on kbsync.audit_entries (actor, at desc, id desc);
create index audit_entries_by_action on kbsync.audit_entries (action, at desc, id desc);
create index audit_entries_by_organization on kbsync.audit_entries (organization_id, at desc, id desc)
    where organization_id is not null;

-- Titles and addresses can be longer than an index entry may be: their beginning, and a digest.
create index if not exists knowledge_base_documents_by_title
    on knowledge_base_documents (lower(left(title, 100)) text_pattern_ops) where discarded_at is null;
create index if not exists knowledge_base_documents_by_url
    on knowledge_base_documents (md5(url)) where discarded_at is null and url is not null;

-- A quota's window is shown by the name of what it serves.
create index if not exists knowledge_base_sources_by_data_source
    on knowledge_base_sources (data_source_id) where discarded_at is null;
