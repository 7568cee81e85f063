-- The transactional way in (LS-02): a producer calls kbsync.request_sync(request) inside its own transaction.
-- Answers the outbox row's id. The row is relayed after commit; a rolled-back transaction leaves nothing.
-- Refuses what no worker could run, at once and in the producer's face: the relay checks the rest.
create or replace function kbsync.request_sync(request jsonb) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, kbsync
as $$
declare
    row_id bigint;
begin
    if jsonb_typeof(request) is distinct from 'object' then
        raise exception 'kbsync.request_sync takes one JSON object, for example {"type": "sync_source", "organization_id": 1, "source_id": 2}'
            using errcode = '22023';
    end if;
    if coalesce(request ->> 'type', '') not in
        ('sync_source', 'sync_document', 'document_chunks', 'start_crawl', 'crawl_url') then
        raise exception 'kbsync.request_sync: unknown type %', coalesce(request ->> 'type', 'null') using errcode = '22023';
    end if;
    if jsonb_typeof(request -> 'organization_id') is distinct from 'number'
        or (request ->> 'organization_id') !~ '^[1-9][0-9]{0,18}$' then
        raise exception 'kbsync.request_sync: organization_id must be a positive integer' using errcode = '22023';
    end if;
    if octet_length(request::text) > 262144 then
        raise exception 'kbsync.request_sync: a request holds at most 256 KiB' using errcode = '22023';
    end if;
    insert into kbsync.outbox (organization_id, request)
    values ((request ->> 'organization_id')::bigint, request)
    returning id into row_id;
    perform pg_notify('kbsync_outbox', '');
    return row_id;
end
$$;
