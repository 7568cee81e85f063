-- Who may touch what (LS-24), and row security as the wall behind each statement's own tenant filter (SE-02).
-- old workers keep running: yes
do $$
declare
    t text;
    tenant_tables constant text[] := array[
        'public.data_sources', 'public.knowledge_base_sources', 'public.knowledge_base_sections',
        'public.knowledge_base_documents', 'public.knowledge_base_document_sections',
        'public.knowledge_base_crawl_tasks', 'public.document_chunks', 'public.pg_search_documents',
        'kbsync.crawl_task_urls', 'kbsync.unit_requests', 'kbsync.outbox'
    ];
begin
    foreach t in array tenant_tables loop
        execute format('alter table %s enable row level security', t);
        execute format('create policy kbsync_one_organization on %s to kbsync_library '
            'using (organization_id = nullif(current_setting(''kbsync.organization_id'', true), '''')::bigint) '
            'with check (organization_id = nullif(current_setting(''kbsync.organization_id'', true), '''')::bigint)', t);
        execute format('create policy kbsync_every_organization on %s to kbsync_fleet using (true) with check (true)', t);
        execute format('grant select, insert, update, delete on %s to kbsync_library, kbsync_fleet', t);
    end loop;
end
$$;
-- A Rails app owns its tables and is not held by policies on them; other roles of its own need a policy of their own.

alter table organizations enable row level security;
create policy kbsync_one_organization on organizations to kbsync_library
    using (id = nullif(current_setting('kbsync.organization_id', true), '')::bigint);
create policy kbsync_every_organization on organizations to kbsync_fleet using (true) with check (true);
grant select on organizations to kbsync_library;
grant select, insert, update on organizations to kbsync_fleet;

grant select, insert, update on kbsync.ticks, kbsync.principals, kbsync.tokens, kbsync.flag_notes to kbsync_fleet;
grant select, insert on kbsync.audit_entries to kbsync_library, kbsync_fleet;
grant select, insert, update, delete on flipper_features, flipper_gates to kbsync_fleet;
grant select on flipper_features, flipper_gates, kbsync.flag_notes to kbsync_library;
grant usage on all sequences in schema kbsync to kbsync_library, kbsync_fleet;
do $$
declare
    t text;
begin
    foreach t in array array['organizations', 'data_sources', 'knowledge_base_sources', 'knowledge_base_sections',
        'knowledge_base_documents', 'knowledge_base_document_sections', 'knowledge_base_crawl_tasks', 'document_chunks',
        'pg_search_documents', 'flipper_features', 'flipper_gates'] loop
        if pg_get_serial_sequence('public.' || t, 'id') is not null then
            execute format('grant usage on sequence %s to kbsync_library, kbsync_fleet',
                pg_get_serial_sequence('public.' || t, 'id'));
        end if;
    end loop;
end
$$;
