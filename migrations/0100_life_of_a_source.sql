-- The life of a source: credentials that were refused, its own interval, being disabled, and what its runs came to.
-- old workers keep running: yes
-- A provider that refused the credentials is not asked again with them (LS-07); new ones, or a check that succeeds, end that.
alter table data_sources add column if not exists refused_at timestamptz;
alter table data_sources add column if not exists refused_why text;

alter table knowledge_base_sources add column if not exists disabled_at timestamptz;
-- Besides the daily tick: seconds between two syncs, and when the schedule asked for the last one.
alter table knowledge_base_sources add column if not exists sync_every_s integer;
alter table knowledge_base_sources add column if not exists interval_asked_at timestamptz;
do $$ begin
    alter table knowledge_base_sources add constraint knowledge_base_sources_sync_every_s_sane
        check (sync_every_s between 300 and 31536000) not valid;
exception when duplicate_object then null; end $$;
create index if not exists knowledge_base_sources_with_interval on knowledge_base_sources (id)
    where sync_every_s is not null and discarded_at is null and disabled_at is null;

-- When the text became another one, whoever wrote it: what a run counts as changed.
alter table knowledge_base_documents add column if not exists content_changed_at timestamptz;
create or replace function kbsync.note_content_change() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    new.content_changed_at := clock_timestamp();
    return new;
end
$$;
create or replace trigger kbsync_content_changed before update of content_hash on knowledge_base_documents
    for each row when (old.content_hash is distinct from new.content_hash)
    execute function kbsync.note_content_change();

-- One row a run, the newest of each source; its attempts, delays and crawl are the same run.
create table kbsync.source_runs (
    id bigserial primary key,
    organization_id bigint not null,
    source_id bigint not null,
    attempts integer not null default 1,
    started_at timestamptz not null default clock_timestamp(),
    ended_at timestamptz,
    outcome text check (outcome in ('synced', 'failed')),
    reason text,
    added integer not null default 0,
    changed integer not null default 0,
    unchanged integer not null default 0,
    removed integer not null default 0,
    unreadable integer not null default 0,
    constraint source_runs_outcome_when_ended check ((ended_at is null) = (outcome is null))
);
create index source_runs_of_source on kbsync.source_runs (organization_id, source_id, id);
create unique index source_runs_one_open on kbsync.source_runs (organization_id, source_id) where ended_at is null;
alter table kbsync.source_runs enable row level security;
create policy kbsync_one_organization on kbsync.source_runs to kbsync_library
    using (organization_id = nullif(current_setting('kbsync.organization_id', true), '')::bigint)
    with check (organization_id = nullif(current_setting('kbsync.organization_id', true), '')::bigint);
create policy kbsync_every_organization on kbsync.source_runs to kbsync_fleet using (true) with check (true);
grant select, insert, update, delete on kbsync.source_runs to kbsync_library, kbsync_fleet;
grant usage on sequence kbsync.source_runs_id_seq to kbsync_library, kbsync_fleet;
