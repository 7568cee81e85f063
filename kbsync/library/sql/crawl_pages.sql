-- name: upsert_crawled_document
-- The document of a crawled page, by its canonical URL. Crawls have no second sync: the page is the sync.
insert into knowledge_base_documents as known
    (organization_id, source_id, source_type, external_id, external_key, title, url, content, content_hash,
     content_truncated, language, etag, last_modified, links, seen_in_run, last_synced_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14::jsonb, $15, clock_timestamp())
on conflict (organization_id, source_id, external_key) do update
set title = excluded.title,
    url = excluded.url,
    content = case when known.content_hash = excluded.content_hash then known.content else excluded.content end,
    chunks_synced_at = case
        when known.discarded_at is null and known.content_hash = excluded.content_hash
            and known.title = excluded.title then known.chunks_synced_at
    end,
    content_hash = excluded.content_hash,
    content_truncated = excluded.content_truncated,
    language = excluded.language,
    etag = excluded.etag,
    last_modified = excluded.last_modified,
    links = excluded.links,
    seen_in_run = greatest(known.seen_in_run, excluded.seen_in_run),
    unreadable_reason = null,
    discarded_at = null,
    last_synced_at = excluded.last_synced_at,
    updated_at = now()
returning id, (content is not null and content <> '' and chunks_synced_at is null) as chunks_due;

-- name: confirm_crawled_document
-- 304: the stored page still stands, and this crawl has seen it.
update knowledge_base_documents
set seen_in_run = greatest(seen_in_run, $3), last_synced_at = clock_timestamp(), unreadable_reason = null,
    updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null
returning id, (content is not null and content <> '' and chunks_synced_at is null) as chunks_due;
