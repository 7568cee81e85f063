-- One index a question: a planner that expects one row takes any index that begins with the organization.
-- old workers keep running: yes
-- Statistics lag behind a crawl or a listing that is just growing, and the wrong index reads all of it for each page.
create index if not exists document_chunks_languages_of_organization
    on document_chunks ((organization_id + 0), language);
drop index if exists document_chunks_languages;

-- What depends on what: the planner takes an organization and its source for two independent filters otherwise.
create statistics if not exists knowledge_base_documents_of_one_source (dependencies)
    on organization_id, source_id from knowledge_base_documents;
create statistics if not exists document_chunks_of_one_document (dependencies)
    on organization_id, source_id from document_chunks;
create statistics if not exists kbsync.crawl_task_urls_of_one_crawl (dependencies)
    on organization_id, crawl_task_id from kbsync.crawl_task_urls;
