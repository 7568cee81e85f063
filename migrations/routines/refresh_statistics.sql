-- What the planner knows of tables that a crawl or a listing is just filling: autovacuum looks once a minute, and until then
-- every look-up is planned for an empty table, so that each page reads what all pages before it wrote.
--
-- It runs with its owner's rights, because only a table's owner may analyse it. Tables that have not grown by half since they
-- were looked at are left alone, and so is one that somebody else is analysing: calling it often costs nothing. Only columns
-- that an index is keyed by are looked at: a sample of texts and their words costs ten times as much, and plans no look-up of
-- a crawl. Autovacuum comes to them.
create or replace function kbsync.refresh_statistics() returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    one regclass;
    keys text;
begin
    for one, keys in
        select c.oid, (
                select string_agg(quote_ident(a.attname), ', ')
                from pg_attribute a
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                    and exists (
                        select
                        from pg_index i
                        join pg_class x on x.oid = i.indexrelid
                        join pg_am m on m.oid = x.relam and m.amname = 'btree'
                        where i.indrelid = c.oid and a.attnum = any(i.indkey)
                    )
            )
        from pg_class c
        where c.oid in (
                'public.knowledge_base_documents'::regclass, 'public.knowledge_base_sections'::regclass,
                'public.knowledge_base_document_sections'::regclass, 'public.document_chunks'::regclass,
                'public.pg_search_documents'::regclass, 'kbsync.crawl_task_urls'::regclass,
                'kbsync.unit_requests'::regclass)
            and pg_relation_size(c.oid) / current_setting('block_size')::bigint > greatest(1, 1.5 * c.relpages)
    loop
        execute format('analyze (skip_locked) %s (%s)', one, keys);
    end loop;
end
$$;
revoke all on function kbsync.refresh_statistics from public;
grant execute on function kbsync.refresh_statistics to kbsync_library, kbsync_fleet;
