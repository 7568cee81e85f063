-- How units ended, by kind and hour: what `kbsync observe` reads after the queue has trimmed its jobs (OP-16).
-- old workers keep running: yes
create table kbsync.hourly_counters (
    hour timestamptz not null check (date_trunc('hour', hour at time zone 'UTC') = hour at time zone 'UTC'),
    kind text not null,
    name text not null,
    amount bigint not null check (amount >= 0),
    primary key (hour, kind, name)
);
grant select, insert, update, delete on kbsync.hourly_counters to kbsync_fleet;
