-- What a bulk action needs to go on where a dead process left it, with counts that add up: how far it is, what it held.
-- old workers keep running: yes
alter table kbsync.bulk_actions
    add column expected bigint not null default 0 check (expected >= 0),
    add column after_ms bigint,
    add column before_ms bigint,
    add column examples jsonb not null default '[]',
    add column holder text,
    add column cursor text,
    add column in_hand bytea[] not null default '{}';
