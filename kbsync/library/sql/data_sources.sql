-- name: insert_data_source
-- A provider connection of an organization; credentials come sealed or not at all.
insert into data_sources (organization_id, provider, name, sealed_credentials, limits)
values ($1, $2, $3, $4, $5::jsonb)
returning id;

-- name: data_source_by_id
-- Refused credentials may be tried again once a day; a day of the tick is not quite 24 hours.
select id, organization_id, provider, name, sealed_credentials, limits, refused_at, refused_why,
    coalesce(refused_at < clock_timestamp() - interval '20 hours', false) as may_be_tried
from data_sources
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: update_limits
-- A bigger plan, or a smaller one: what the throttles read from now on (RL-07).
update data_sources set limits = $3::jsonb, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id;

-- name: update_sealed_credentials
-- What was refused were the ones before.
update data_sources set sealed_credentials = $3, refused_at = null, refused_why = null, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id;

-- name: note_refusal
-- The provider refused these very credentials ($4); newer ones are not blamed.
update data_sources set refused_at = clock_timestamp(), refused_why = $3, updated_at = now()
where organization_id = $1 and id = $2 and sealed_credentials is not distinct from $4;

-- name: forget_refusal
-- They are taken after all.
update data_sources set refused_at = null, refused_why = null, updated_at = now()
where organization_id = $1 and id = $2 and refused_at is not null
returning id;
