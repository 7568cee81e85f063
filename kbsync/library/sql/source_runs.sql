-- name: begin_source_run
-- A run begins, or its next attempt does: what is open is the same run. $3 were removed because a person had agreed to it.
insert into kbsync.source_runs as known (organization_id, source_id, removed) values ($1, $2, $3)
on conflict (organization_id, source_id) where ended_at is null
do update set attempts = known.attempts + 1, removed = known.removed + excluded.removed;

-- name: forget_older_runs
-- The newest $3 of a source are kept.
delete from kbsync.source_runs
where organization_id = $1 and source_id = $2
    and id <= (
        select id from kbsync.source_runs where organization_id = $1 and source_id = $2 order by id desc offset $3 limit 1
    );

-- name: settle_source_run
-- The open run ends with what it saw (documents of listing $3). Changed is what has another text than when the run began, and
-- with $4 (each document is read by itself, later) what was read and is due again; one that still waits for its first reading
-- is unchanged, and one that came back is added. $5 were removed.
with run as (
    select id, started_at from kbsync.source_runs where organization_id = $1 and source_id = $2 and ended_at is null
), seen as (
    select document.created_at >= run.started_at
            or ($4 and document.last_synced_at is null and document.content_hash is not null) as is_new,
        document.unreadable_reason is not null as is_unreadable,
        coalesce(document.content_changed_at >= run.started_at, false)
            or ($4 and document.last_synced_at is not null
                and (document.source_version is distinct from document.synced_version
                    or document.source_changed_at is distinct from document.synced_changed_at)) as is_changed
    from run
    join knowledge_base_documents document
        on document.organization_id = $1 and document.source_id = $2 and document.discarded_at is null
            and document.seen_in_run = $3
), counted as (
    select count(*) filter (where is_new and not is_unreadable) as added,
        count(*) filter (where not is_new and is_changed and not is_unreadable) as changed,
        count(*) filter (where not is_new and not is_changed and not is_unreadable) as unchanged,
        count(*) filter (where is_unreadable) as unreadable
    from seen
)
update kbsync.source_runs known
set ended_at = clock_timestamp(), outcome = 'synced', reason = $6, added = counted.added, changed = counted.changed,
    unchanged = counted.unchanged, unreadable = counted.unreadable, removed = known.removed + $5
from run, counted
where known.id = run.id and known.organization_id = $1;

-- name: move_in_newest_run
-- What reading document $3 found after the newest run had ended: it is gone, or ($4) unreadable, or (not $4) readable again. It is
-- counted there instead of where its listing counted it. A run that is open counts by itself what it sees, except for what went.
with run as (
    select id, started_at, ended_at is null as is_open
    from kbsync.source_runs where organization_id = $1 and source_id = $2
    order by id desc limit 1
), moved as (
    select run.id, not run.is_open and source.sync_run = document.seen_in_run as is_counted,
        case
            when document.unreadable_reason is not null then 'unreadable'
            when document.created_at >= run.started_at
                or (document.last_synced_at is null and document.content_hash is not null) then 'added'
            when document.last_synced_at is not null
                and (document.source_version is distinct from document.synced_version
                    or document.source_changed_at is distinct from document.synced_changed_at) then 'changed'
            else 'unchanged'
        end as was,
        case
            when $5 then 'removed' when $4 then 'unreadable' when document.created_at >= run.started_at then 'added'
            else 'changed'
        end as becomes
    from run
    join knowledge_base_documents document on document.organization_id = $1 and document.id = $3
    join knowledge_base_sources source on source.organization_id = $1 and source.id = $2
)
update kbsync.source_runs known
set added = greatest(0, known.added - (moved.is_counted and moved.was = 'added')::integer)
        + (moved.is_counted and moved.becomes = 'added')::integer,
    changed = greatest(0, known.changed - (moved.is_counted and moved.was = 'changed')::integer)
        + (moved.is_counted and moved.becomes = 'changed')::integer,
    unchanged = greatest(0, known.unchanged - (moved.is_counted and moved.was = 'unchanged')::integer),
    unreadable = greatest(0, known.unreadable - (moved.is_counted and moved.was = 'unreadable')::integer)
        + (moved.is_counted and moved.becomes = 'unreadable')::integer,
    removed = known.removed + (moved.becomes = 'removed')::integer
from moved
where known.organization_id = $1 and known.id = moved.id and moved.was <> moved.becomes;

-- name: fail_source_run
-- The open run ends badly. What it removed and stored before stays counted.
update kbsync.source_runs set ended_at = clock_timestamp(), outcome = 'failed', reason = $3
where organization_id = $1 and source_id = $2 and ended_at is null;

-- name: correct_ended_run
-- The newest run ended and proved to have seen nothing.
update kbsync.source_runs set outcome = 'failed', reason = $3
where organization_id = $1 and ended_at is not null
    and id = (select max(id) from kbsync.source_runs where organization_id = $1 and source_id = $2);

-- name: runs_of_source
-- The newest first.
select id, attempts, started_at, ended_at, outcome, reason, added, changed, unchanged, removed, unreadable
from kbsync.source_runs
where organization_id = $1 and source_id = $2
order by id desc
limit $3;
