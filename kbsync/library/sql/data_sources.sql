-- name: insert_data_source
-- A provider connection of an organization; credentials come sealed or not at all.
insert into data_sources (organization_id, provider, name, sealed_credentials, limits)
values ($1, $2, $3, $4, $5::jsonb)
returning id;

-- name: data_source_by_id
select id, organization_id, provider, name, sealed_credentials, limits
from data_sources
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: update_limits
-- A bigger plan, or a smaller one: what the throttles read from now on (RL-07).
update data_sources set limits = $3::jsonb, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id;

-- name: update_sealed_credentials
update data_sources set sealed_credentials = $3, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id;
