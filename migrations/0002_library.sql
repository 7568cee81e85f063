-- The Knowledge Library's tables as a Rails app would own them: made here when standalone, adopted when they exist.
-- old workers keep running: yes
create table if not exists organizations (
    id bigserial primary key,
    name text not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

create table if not exists data_sources (
    id bigserial primary key,
    organization_id bigint not null references organizations (id),
    provider text not null,
    name text not null default '',
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
-- Credentials are sealed by kbsync's key before they come here (never plain); limits override the throttles' defaults.
alter table data_sources add column if not exists sealed_credentials text;
alter table data_sources add column if not exists limits jsonb not null default '{}';
alter table data_sources add column if not exists discarded_at timestamptz;

create table if not exists knowledge_base_sources (
    id bigserial primary key,
    organization_id bigint not null references organizations (id),
    data_source_id bigint references data_sources (id),
    type text not null,
    name text not null default '',
    sync_status text not null default 'pending',
    last_synced_at timestamptz,
    discarded_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
alter table knowledge_base_sources add column if not exists config jsonb not null default '{}';
alter table knowledge_base_sources add column if not exists sync_error text;
alter table knowledge_base_sources add column if not exists sync_error_at timestamptz;
alter table knowledge_base_sources add column if not exists sync_started_at timestamptz;
-- What the last complete listing would remove but waits for a second run or an operator: {"count", "of", "titles", "since"}.
alter table knowledge_base_sources add column if not exists held_removal jsonb;
alter table knowledge_base_sources add column if not exists removal_approved_at timestamptz;
alter table knowledge_base_sources add column if not exists daily_tick boolean;
-- Counts the runs of a listing; only the newest run may remove documents or end the run.
alter table knowledge_base_sources add column if not exists sync_run bigint not null default 0;
alter table knowledge_base_sources add column if not exists counts jsonb not null default '{}';
do $$ begin
    alter table knowledge_base_sources add constraint knowledge_base_sources_sync_status_known
        check (sync_status in ('pending', 'syncing', 'synced', 'failed')) not valid;
exception when duplicate_object then null; end $$;
create index if not exists knowledge_base_sources_kept on knowledge_base_sources (id) where discarded_at is null;

create table if not exists knowledge_base_sections (
    id bigserial primary key,
    organization_id bigint not null,
    source_id bigint not null references knowledge_base_sources (id),
    parent_id bigint references knowledge_base_sections (id),
    external_id text not null,
    title text not null default '',
    position integer not null default 0,
    discarded_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
-- Free text can be longer than an index entry may be, so keys over it are its sha256 in hex.
alter table knowledge_base_sections add column if not exists external_key text;
alter table knowledge_base_sections add column if not exists seen_in_run bigint;
-- The parent as the provider names it: it may be listed after its children.
alter table knowledge_base_sections add column if not exists parent_external_key text;
create unique index if not exists knowledge_base_sections_by_external_key
    on knowledge_base_sections (organization_id, source_id, external_key);

create table if not exists knowledge_base_documents (
    id bigserial primary key,
    organization_id bigint not null references organizations (id),
    source_id bigint references knowledge_base_sources (id),
    source_type text not null default '',
    external_id text not null,
    title text not null default '',
    url text,
    content text,
    last_synced_at timestamptz,
    chunks_synced_at timestamptz,
    discarded_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
alter table knowledge_base_documents add column if not exists external_key text;
alter table knowledge_base_documents add column if not exists content_hash text;
alter table knowledge_base_documents add column if not exists content_truncated boolean not null default false;
alter table knowledge_base_documents add column if not exists unreadable_reason text;
alter table knowledge_base_documents add column if not exists language text;
alter table knowledge_base_documents add column if not exists etag text;
alter table knowledge_base_documents add column if not exists last_modified text;
alter table knowledge_base_documents add column if not exists source_changed_at timestamptz;
alter table knowledge_base_documents add column if not exists source_version text;
alter table knowledge_base_documents add column if not exists seen_in_run bigint;
-- The source_version and source_changed_at that the stored content was read under: other values in a listing are a change.
alter table knowledge_base_documents add column if not exists synced_version text;
alter table knowledge_base_documents add column if not exists synced_changed_at timestamptz;
alter table knowledge_base_documents add column if not exists unreadable_in_run bigint;
-- The links of a crawled page: a re-crawl that answers 304 follows them without fetching it again.
alter table knowledge_base_documents add column if not exists links jsonb;
create unique index if not exists knowledge_base_documents_by_external_key
    on knowledge_base_documents (organization_id, source_id, external_key);
create index if not exists knowledge_base_documents_without_chunks on knowledge_base_documents (id)
    where discarded_at is null and chunks_synced_at is null and content is not null and content <> '';
create index if not exists knowledge_base_documents_of_source
    on knowledge_base_documents (organization_id, source_id, id) where discarded_at is null;

-- Rows that another application wrote before or writes beside kbsync get their key as well, else a listing would double them.
create or replace function kbsync.set_external_key() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    new.external_key := encode(sha256(convert_to(new.external_id, 'UTF8')), 'hex');
    return new;
end
$$;
create or replace trigger kbsync_external_key before insert or update of external_id on knowledge_base_documents
    for each row when (new.external_key is null) execute function kbsync.set_external_key();
create or replace trigger kbsync_external_key before insert or update of external_id on knowledge_base_sections
    for each row when (new.external_key is null) execute function kbsync.set_external_key();
update knowledge_base_documents set external_key = encode(sha256(convert_to(external_id, 'UTF8')), 'hex')
    where external_key is null;
update knowledge_base_sections set external_key = encode(sha256(convert_to(external_id, 'UTF8')), 'hex')
    where external_key is null;

create table if not exists knowledge_base_document_sections (
    id bigserial primary key,
    organization_id bigint not null,
    document_id bigint not null references knowledge_base_documents (id) on delete cascade,
    section_id bigint not null references knowledge_base_sections (id) on delete cascade,
    created_at timestamptz not null default now(),
    unique (document_id, section_id)
);

create table if not exists knowledge_base_crawl_tasks (
    id bigserial primary key,
    organization_id bigint not null references organizations (id),
    source_id bigint references knowledge_base_sources (id),
    start_url text not null,
    status text not null default 'pending',
    urls_pending integer not null default 0,
    urls_found integer not null default 0,
    finished_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
alter table knowledge_base_crawl_tasks add column if not exists config jsonb not null default '{}';
alter table knowledge_base_crawl_tasks add column if not exists started_at timestamptz;
-- Why the crawl's listing is not complete (a cap hit, a URL failed, robots unread ...), one entry a reason, and its notes.
alter table knowledge_base_crawl_tasks add column if not exists incomplete_reasons text[] not null default '{}';
alter table knowledge_base_crawl_tasks add column if not exists notes text[] not null default '{}';
alter table knowledge_base_crawl_tasks add column if not exists error text;
do $$ begin
    alter table knowledge_base_crawl_tasks add constraint knowledge_base_crawl_tasks_urls_pending_not_negative
        check (urls_pending >= 0) not valid;
exception when duplicate_object then null; end $$;
do $$ begin
    alter table knowledge_base_crawl_tasks add constraint knowledge_base_crawl_tasks_status_known
        check (status in ('pending', 'running', 'completed', 'failed')) not valid;
exception when duplicate_object then null; end $$;
create unique index if not exists knowledge_base_crawl_tasks_one_live_per_source
    on knowledge_base_crawl_tasks (organization_id, source_id) where status in ('pending', 'running');

create table if not exists document_chunks (
    id bigserial primary key,
    organization_id bigint not null,
    source_type text not null,
    source_id bigint not null,
    position integer not null default 0,
    content text not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
alter table document_chunks add column if not exists content_hash text not null default '';
alter table document_chunks add column if not exists heading_path text[] not null default '{}';
alter table document_chunks add column if not exists title text not null default '';
alter table document_chunks add column if not exists url text;
alter table document_chunks add column if not exists anchor text;
alter table document_chunks add column if not exists start_offset integer not null default 0;
alter table document_chunks add column if not exists end_offset integer not null default 0;
alter table document_chunks add column if not exists language regconfig not null default 'simple';
alter table document_chunks add column if not exists searchable tsvector;
-- Part of the text could not be indexed (over Postgres's limits), and the chunk says so.
alter table document_chunks add column if not exists partly_searchable boolean not null default false;
alter table document_chunks add column if not exists embedding real[];
create index if not exists document_chunks_of_source on document_chunks (organization_id, source_type, source_id, position);
create index if not exists document_chunks_searchable on document_chunks using gin (searchable);

create table if not exists pg_search_documents (
    id bigserial primary key,
    content text,
    searchable_type text,
    searchable_id bigint,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
alter table pg_search_documents add column if not exists organization_id bigint;
create index if not exists pg_search_documents_of_searchable
    on pg_search_documents (organization_id, searchable_type, searchable_id);

-- Ruby Flipper's tables (its ActiveRecord adapter), so that a Rails app and kbsync read one flag.
create table if not exists flipper_features (
    id bigserial primary key,
    key text not null unique,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
create table if not exists flipper_gates (
    id bigserial primary key,
    feature_key text not null,
    key text not null,
    value text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    unique (feature_key, key, value)
);
