-- kbsync's own ledgers: crawl URLs, outbox, unit requests, ticks, principals and tokens, audit, flag notes.
-- old workers keep running: yes
create table kbsync.crawl_task_urls (
    id bigserial primary key,
    organization_id bigint not null,
    crawl_task_id bigint not null references knowledge_base_crawl_tasks (id) on delete cascade,
    url text not null,
    url_key text not null check (url_key ~ '^[0-9a-f]{64}$'),
    fetch_url text not null,
    parent_url text,
    depth integer not null check (depth >= 0),
    claimed_at timestamptz not null default now(),
    finished_at timestamptz,
    outcome text check (outcome in ('stored', 'unchanged', 'gone', 'refused', 'duplicate', 'failed')),
    detail text,
    document_id bigint,
    -- The shape of the URL and of the page's text: what an endless site repeats (bounds on traps).
    pattern_key text,
    text_key text,
    constraint crawl_task_urls_once unique (organization_id, crawl_task_id, url_key),
    constraint crawl_task_urls_outcome_when_finished check ((finished_at is null) = (outcome is null))
);
create index crawl_task_urls_unfinished on kbsync.crawl_task_urls (id) where finished_at is null;
create index crawl_task_urls_by_pattern on kbsync.crawl_task_urls (organization_id, crawl_task_id, pattern_key)
    where pattern_key is not null;
create index crawl_task_urls_by_text on kbsync.crawl_task_urls (organization_id, crawl_task_id, text_key)
    where text_key is not null;
create index crawl_task_urls_children on kbsync.crawl_task_urls (organization_id, crawl_task_id, md5(parent_url));

-- A unit that somebody asked for and that has not ended since: what the reconciler gives back to Redis (QR-08).
-- Open = ended_at is null or ended_at < requested_at. ended_at is the start of the run that ended, so that a request
-- which came during the run stays open.
create table kbsync.unit_requests (
    job_id text primary key check (length(job_id) between 1 and 200),
    organization_id bigint not null,
    kind text not null,
    request jsonb not null,
    requested_at timestamptz not null default clock_timestamp(),
    ended_at timestamptz,
    ended_as text check (ended_as in ('done', 'record_missing', 'skipped', 'failed', 'abandoned')),
    constraint unit_requests_ended_as_when_ended check ((ended_at is null) = (ended_as is null))
);
create index unit_requests_open on kbsync.unit_requests (requested_at, job_id)
    where ended_at is null or ended_at < requested_at;

create table kbsync.outbox (
    id bigserial primary key,
    organization_id bigint not null,
    request jsonb not null,
    created_at timestamptz not null default now(),
    relayed_at timestamptz,
    outcome text,
    refusal text,
    constraint outbox_outcome_when_relayed check ((relayed_at is null) = (outcome is null))
);
-- By organization, because the relay holds the rows of a paused one and serves the others side by side.
create index outbox_unrelayed on kbsync.outbox (organization_id, id) where relayed_at is null;

create table kbsync.ticks (
    date date primary key,
    claimed_at timestamptz not null default now(),
    claimed_by text not null,
    finished_at timestamptz,
    skipped boolean not null default false,
    phase text not null default 'sources' check (phase in ('sources', 'chunks', 'done')),
    after_id bigint not null default 0,
    counts jsonb not null default '{}'
);

create table kbsync.principals (
    id bigserial primary key,
    name text not null unique check (length(name) between 1 and 200),
    kind text not null check (kind in ('human', 'service', 'agent')),
    roles text[] not null,
    organization_id bigint,
    created_at timestamptz not null default now()
);
create table kbsync.tokens (
    id bigserial primary key,
    principal_id bigint not null references kbsync.principals (id),
    digest bytea not null unique check (length(digest) = 32),
    hint text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz
);

create table kbsync.audit_entries (
    id bigserial primary key,
    at timestamptz not null default now(),
    actor text not null,
    action text not null,
    target text not null,
    organization_id bigint,
    reason text,
    detail jsonb not null default '{}'
);
create index audit_entries_by_time on kbsync.audit_entries (at desc, id desc);

create table kbsync.flag_notes (
    name text primary key,
    owner text not null,
    purpose text not null,
    created_on date not null,
    review_by date not null,
    changed_by text,
    changed_at timestamptz,
    reason text
);
insert into kbsync.flag_notes (name, owner, purpose, created_on, review_by)
values ('pause_api2_knowledge_base_sync', 'engineering', 'rollback of the Knowledge Library pipeline migration',
        '2026-09-09', '2026-12-08');
