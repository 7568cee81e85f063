-- name: owe_units
-- $1 units of $2 tenants, accepted and lost, a tenant's after another's.
insert into kbsync.unit_requests (job_id, organization_id, kind, request, requested_at)
select 'kb-document-chunks-' || number, tenant, 'document_chunks',
    jsonb_build_object('type', 'document_chunks', 'organization_id', tenant, 'document_id', number),
    clock_timestamp() - interval '1 day' + number * interval '10 milliseconds'
from generate_series(1, $1::bigint) as number, lateral (select 1 + (number - 1) * $2::bigint / $1::bigint as tenant) as of_tenant;
