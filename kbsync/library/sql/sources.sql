-- name: insert_source
insert into knowledge_base_sources (organization_id, data_source_id, type, name, config)
select $1, $2, $3, $4, $5::jsonb
where $2::bigint is null
    or exists (select from data_sources where organization_id = $1 and id = $2 and discarded_at is null)
returning id;

-- name: source_by_id
select id, organization_id, data_source_id, type, name, config, sync_status, sync_error, last_synced_at, counts,
    held_removal, removal_approved_at, sync_run
from knowledge_base_sources
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: kept_sources
-- What an organization's editors look at: a handful of rows, so no pages.
select id, organization_id, data_source_id, type, name, config, sync_status, sync_error, last_synced_at, counts,
    held_removal, removal_approved_at, sync_run
from knowledge_base_sources
where organization_id = $1 and discarded_at is null
order by id;

-- name: source_for_update
-- The row that whoever ends a run or removes documents must hold: one at a time, and the newest run only.
select id, organization_id, data_source_id, type, name, config, sync_status, sync_error, last_synced_at, counts,
    held_removal, removal_approved_at, sync_run
from knowledge_base_sources
where organization_id = $1 and id = $2 and discarded_at is null
for no key update;

-- name: begin_run
-- A run of the listing begins: any older run of this source loses its right to end or to remove anything.
update knowledge_base_sources
set sync_status = 'syncing', sync_started_at = clock_timestamp(), sync_error = null, sync_error_at = null,
    sync_run = sync_run + 1, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id, organization_id, data_source_id, type, name, config, sync_status, sync_error, last_synced_at, counts,
    held_removal, removal_approved_at, sync_run;

-- name: finish_run
-- The end of a run whose row is held. An approval stands only for the removal that it was given for.
update knowledge_base_sources
set sync_status = 'synced', sync_error = null, sync_error_at = null, last_synced_at = clock_timestamp(),
    counts = $3::jsonb, held_removal = $4::jsonb, updated_at = now(),
    removal_approved_at = case when held_removal is not distinct from $4::jsonb then removal_approved_at end
where organization_id = $1 and id = $2;

-- name: forget_held_removal
-- What an operator approved has been removed.
update knowledge_base_sources set held_removal = null, removal_approved_at = null, updated_at = now()
where organization_id = $1 and id = $2;

-- name: fail_source
-- A run that ended badly, in words for an editor.
update knowledge_base_sources
set sync_status = 'failed', sync_error = $3, sync_error_at = clock_timestamp(), updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id;

-- name: fail_ended_run
-- A run that was written down as ended and saw nothing of its source: it failed, and the source was last synced when it was
-- before ($4).
update knowledge_base_sources
set sync_status = 'failed', sync_error = $3, sync_error_at = clock_timestamp(), last_synced_at = $4, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: note_source_wait
-- A provider made the run wait: it is still syncing, and says for what.
update knowledge_base_sources set sync_error = $3, sync_error_at = clock_timestamp(), updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id;

-- name: count_unreadable
-- A document became unreadable ($3 = 1) or readable (-1) after the listing counted them.
update knowledge_base_sources
set counts = counts || jsonb_build_object('unreadable', greatest(0, coalesce((counts ->> 'unreadable')::integer, 0) + $3))
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: count_gone
-- A document went after the listing counted it.
update knowledge_base_sources
set counts = counts || jsonb_build_object('removed', coalesce((counts ->> 'removed')::integer, 0) + 1)
    || case
        when counts ? 'documents' then jsonb_build_object('documents', greatest(0, (counts ->> 'documents')::integer - 1))
        else '{}'::jsonb
    end
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: approve_removal_if_held
-- An operator agrees to what is held; no row when nothing is.
update knowledge_base_sources set removal_approved_at = clock_timestamp(), updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null and held_removal is not null
returning id;
