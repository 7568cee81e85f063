-- The producer app's own jobs for library work, since a time (OP-16): one row a class of the six that kbsync replaces.
-- A function, because the table is a Rails app's and may not be here; its owner's rights, because kbsync's roles have none on it.
-- Answers no row at all when the table is not here, or not its owner's to read. `old_unfinished` are those from before that have not finished yet.
create or replace function kbsync.legacy_jobs(since timestamptz)
returns table (job_class text, jobs bigint, first_seen timestamptz, last_seen timestamptz, old_unfinished bigint)
language plpgsql
stable
security definer
set search_path = pg_catalog
set timezone = 'UTC' -- a Rails app's times have no zone and are UTC
as $$
begin
    if not coalesce(has_table_privilege(to_regclass('public.good_jobs'), 'select'), false) then
        return;
    end if;
    return query execute
        'select legacy.job_class, count(rows.created_at) filter (where rows.created_at > $1), '
        '    min(rows.created_at) filter (where rows.created_at > $1)::timestamptz, '
        '    max(rows.created_at) filter (where rows.created_at > $1)::timestamptz, '
        '    count(rows.created_at) filter (where rows.created_at <= $1 and rows.finished_at is null) '
        'from unnest($2) as legacy (job_class) '
        'left join public.good_jobs rows on rows.job_class = legacy.job_class '
        'group by legacy.job_class '
        'order by 2 desc, 1'
        using since, array[
            'SyncKnowledgeBaseSourcesJob', 'SyncKnowledgeBaseSourceJob', 'SyncKnowledgeBaseDocumentJob',
            'SyncKnowledgeBaseDocumentChunksJob', 'StartKnowledgeBaseCrawlJob', 'CrawlKnowledgeBaseUrlJob'];
end
$$;
revoke all on function kbsync.legacy_jobs(timestamptz) from public;
grant execute on function kbsync.legacy_jobs(timestamptz) to kbsync_fleet;
