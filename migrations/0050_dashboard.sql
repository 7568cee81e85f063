-- People at the dashboard: who is signed in, and the bulk actions that they started.
-- old workers keep running: yes
create table kbsync.dashboard_sessions (
    digest bytea primary key check (length(digest) = 32),
    token_id bigint not null references kbsync.tokens (id),
    created_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp(),
    notice jsonb
);
create index dashboard_sessions_by_age on kbsync.dashboard_sessions (seen_at);

-- An action over everything in a queue that matches: it outlives the process that runs it, and says what came of it.
create table kbsync.bulk_actions (
    id bigserial primary key,
    queue text not null,
    action text not null check (action in ('retry', 'promote', 'remove', 'cancel', 'drain')),
    state text not null,
    kind text,
    tenant text,
    error text,
    actor text not null,
    asked_at timestamptz not null default clock_timestamp(),
    held_until timestamptz,
    finished_at timestamptz,
    matched bigint not null default 0 check (matched >= 0),
    done bigint not null default 0 check (done >= 0),
    refused jsonb not null default '{}',
    fault text
);
create index bulk_actions_unfinished on kbsync.bulk_actions (id) where finished_at is null;
create index bulk_actions_by_queue on kbsync.bulk_actions (queue, id desc);

grant select, insert, update, delete on kbsync.dashboard_sessions to kbsync_fleet;
grant select, insert, update on kbsync.bulk_actions to kbsync_fleet;
grant usage on sequence kbsync.bulk_actions_id_seq to kbsync_fleet;
