-- What the dashboard's pages of sources and crawls ask for, however many rows there are.
-- old workers keep running: yes
create index if not exists knowledge_base_sources_of_organization on knowledge_base_sources (organization_id, id)
    where discarded_at is null;
create index if not exists knowledge_base_sources_by_status on knowledge_base_sources (sync_status, organization_id)
    where discarded_at is null and sync_status <> 'synced';
create index if not exists knowledge_base_sources_holding on knowledge_base_sources (organization_id)
    where discarded_at is null and held_removal is not null and removal_approved_at is null;
create index if not exists knowledge_base_crawl_tasks_of_source
    on knowledge_base_crawl_tasks (organization_id, source_id, id);
create index if not exists knowledge_base_crawl_tasks_of_organization on knowledge_base_crawl_tasks (organization_id, id);
-- The children of a URL in the order of their claims: it does all that the index without the id did.
create index crawl_task_urls_in_order on kbsync.crawl_task_urls (organization_id, crawl_task_id, md5(parent_url), id);
drop index kbsync.crawl_task_urls_children;
-- Most URLs are stored, so what ended in another way is a small index, and the stored ones are the rest.
create index crawl_task_urls_not_stored on kbsync.crawl_task_urls (organization_id, crawl_task_id, outcome, id)
    where outcome <> 'stored';
