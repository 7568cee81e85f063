-- name: upsert_listed_documents
-- A batch of a listing, in one order so that parallel runs cannot deadlock (B03). last_synced_at stays: the document sync
-- moves it (LS-08). A discarded document that is listed again is the same row, and due for both its syncs. Chunks have no part
-- in the audience, so that it takes effect at once.
insert into knowledge_base_documents as known
    (organization_id, source_id, source_type, external_id, external_key, title, url, source_changed_at, source_version,
     seen_in_run, content, content_hash, content_truncated, language, audience, audience_groups, listed_audience)
select $1, $2, $3, listed.external_id, listed.external_key, listed.title, listed.url, listed.changed_at, listed.version,
    $4, listed.content, listed.content_hash, listed.truncated, listed.language,
    split_part(listed.audience, E'\x1f', 1), (string_to_array(listed.audience, E'\x1f'))[2:], listed.audience
from unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::timestamptz[], $10::text[], $11::text[], $12::text[],
        $13::boolean[], $14::text[], $15::text[])
    as listed (external_id, external_key, title, url, changed_at, version, content, content_hash, truncated, language,
        audience)
order by listed.external_key
on conflict (organization_id, source_id, external_key) do update
-- A listing may name a document otherwise than its own page does: once it was read, its own name stays.
set title = case
        when known.last_synced_at is null or excluded.content_hash is not null then excluded.title else known.title
    end,
    url = coalesce(excluded.url, known.url),
    source_changed_at = excluded.source_changed_at,
    source_version = excluded.source_version,
    seen_in_run = greatest(known.seen_in_run, excluded.seen_in_run),
    -- The stored value is kept where it is equal, so that Postgres need not write megabytes again.
    content = case
        when excluded.content_hash is null or excluded.content_hash = known.content_hash then known.content
        else excluded.content
    end,
    content_truncated = case
        when excluded.content_hash is null then known.content_truncated else excluded.content_truncated
    end,
    language = coalesce(excluded.language, known.language),
    content_hash = coalesce(excluded.content_hash, known.content_hash),
    audience = split_part(kbsync.audience_after_listing(known.audience, known.audience_groups, known.listed_audience,
        excluded.listed_audience, excluded.content_hash is not null), E'\x1f', 1),
    audience_groups = (string_to_array(kbsync.audience_after_listing(known.audience, known.audience_groups, known.listed_audience,
        excluded.listed_audience, excluded.content_hash is not null), E'\x1f'))[2:],
    listed_audience = excluded.listed_audience,
    -- Another audience in the listing: the document's own sync says anew what it knows of it.
    synced_version = case
        when excluded.content_hash is null and known.listed_audience <> excluded.listed_audience then ''
        else known.synced_version
    end,
    chunks_synced_at = case
        when known.discarded_at is not null or excluded.content_hash <> known.content_hash
            or (excluded.content_hash is not null and (known.content_hash is null or known.title <> excluded.title))
            then null
        else known.chunks_synced_at
    end,
    last_synced_at = case when known.discarded_at is null then known.last_synced_at end,
    unreadable_reason = case when excluded.content_hash is null then known.unreadable_reason end,
    discarded_at = null,
    updated_at = now()
returning id, external_key,
    (last_synced_at is null or unreadable_reason is not null
        or source_version is distinct from synced_version or source_changed_at is distinct from synced_changed_at) as due,
    (content is not null and content <> '' and chunks_synced_at is null) as chunks_due;

-- name: upsert_unreadable_documents
-- Listed items that can't be read are kept, with their reason, and count as seen (LS-07, LS-09). Whom a new one is for
-- nobody has said.
insert into knowledge_base_documents as known
    (organization_id, source_id, source_type, external_id, external_key, title, url, seen_in_run, unreadable_in_run,
     unreadable_reason, audience)
select $1, $2, $3, listed.external_id, listed.external_key, listed.title, listed.url, $4, $4, listed.reason, 'unknown'
from unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
    as listed (external_id, external_key, title, url, reason)
order by listed.external_key
on conflict (organization_id, source_id, external_key) do update
set title = excluded.title,
    url = coalesce(excluded.url, known.url),
    seen_in_run = greatest(known.seen_in_run, excluded.seen_in_run),
    unreadable_in_run = excluded.unreadable_in_run,
    unreadable_reason = excluded.unreadable_reason,
    last_synced_at = case when known.discarded_at is null then known.last_synced_at end,
    discarded_at = null,
    updated_at = now();

-- name: due_after
-- A keyset page of the source's kept documents whose own sync is due: never synced, changed since, or unreadable so far.
-- One that this run's listing called unreadable is not asked for again.
select id
from knowledge_base_documents
where organization_id = $1 and source_id = $2 and discarded_at is null and id > $3
    and unreadable_in_run is distinct from $4
    and (last_synced_at is null or unreadable_reason is not null
        or source_version is distinct from synced_version or source_changed_at is distinct from synced_changed_at)
order by id
limit $5;

-- name: without_chunks_after
-- A keyset page of the source's kept documents with content and no chunks.
select id
from knowledge_base_documents
where organization_id = $1 and source_id = $2 and discarded_at is null and id > $3
    and chunks_synced_at is null and content is not null and content <> ''
order by id
limit $4;

-- name: chunks_outdated_after
-- A keyset page of the source's kept documents whose text was read and whose chunks are none or another section's. What is due
-- for its own sync is left out: that sync asks for chunks.
select id
from knowledge_base_documents
where organization_id = $1 and source_id = $2 and discarded_at is null and id > $3
    and chunks_synced_at is null and content is not null and content <> ''
    and last_synced_at is not null and unreadable_reason is null
    and source_version is not distinct from synced_version and source_changed_at is not distinct from synced_changed_at
order by id
limit $4;

-- name: unlisted_due_after
-- A keyset page of kept documents that this run did not list and that are due: for their own sync, or with $5 for chunks.
select id
from knowledge_base_documents
where organization_id = $1 and source_id = $2 and discarded_at is null and id > $3
    and seen_in_run is distinct from $4
    and case
        when $5 then chunks_synced_at is null and content is not null and content <> ''
        else last_synced_at is null or unreadable_reason is not null
            or source_version is distinct from synced_version or source_changed_at is distinct from synced_changed_at
    end
order by id
limit $6;

-- name: removal_counts
-- What a complete listing of run $3 would remove. Missing twice: not in the run that is held ($4, of time $5) either.
select count(*) as kept,
    count(*) filter (where seen_in_run is distinct from $3) as missing,
    count(*) filter (
        where seen_in_run is distinct from $3 and created_at <= $5::timestamptz and coalesce(seen_in_run, 0) < $4::bigint
    ) as missing_twice,
    count(*) filter (where unreadable_reason is not null) as unreadable
from knowledge_base_documents
where organization_id = $1 and source_id = $2 and discarded_at is null;

-- name: missing_titles
-- The first few of what would go, for a person to look at.
select coalesce(nullif(title, ''), external_id) as title
from knowledge_base_documents
where organization_id = $1 and source_id = $2 and discarded_at is null and seen_in_run is distinct from $3
order by id
limit $4;

-- name: discard_missing
-- The documents that run $3 did not see, with their chunks and search rows. With $4 and $5 only those that the held run $4
-- did not see either. Rows are taken in id order, as everybody takes them.
with gone as (
    update knowledge_base_documents
    set discarded_at = now(), chunks_synced_at = null, updated_at = now()
    where organization_id = $1
        and id in (
            select id
            from knowledge_base_documents
            where organization_id = $1 and source_id = $2 and discarded_at is null
                and seen_in_run is distinct from $3
                and ($4::bigint is null or (created_at <= $5::timestamptz and coalesce(seen_in_run, 0) < $4::bigint))
            order by id
            for update
        )
    returning id
), chunks as (
    delete from document_chunks
    using gone
    where document_chunks.organization_id = $1 and source_type = 'KnowledgeBaseDocument' and source_id = gone.id
), search as (
    delete from pg_search_documents
    using gone
    where organization_id = $1 and searchable_type = 'KnowledgeBaseDocument' and searchable_id = gone.id
)
select count(*) from gone;

-- name: ask_for_missing
-- The documents that `discard_missing` would discard, made due for their own sync: the provider's answer for each decides.
update knowledge_base_documents
set source_version = 'missing in run ' || $3::bigint, updated_at = now()
where organization_id = $1
    and id in (
        select id
        from knowledge_base_documents
        where organization_id = $1 and source_id = $2 and discarded_at is null
            and seen_in_run is distinct from $3::bigint
            and ($4::bigint is null or (created_at <= $5::timestamptz and coalesce(seen_in_run, 0) < $4::bigint))
        order by id
        for update
    );

-- name: discard_document
-- The provider says that it is gone (404, 410): soft, with its chunks and search row.
with gone as (
    update knowledge_base_documents
    set discarded_at = now(), chunks_synced_at = null, updated_at = now()
    where organization_id = $1 and id = $2 and discarded_at is null
    returning id
), chunks as (
    delete from document_chunks
    using gone
    where document_chunks.organization_id = $1 and source_type = 'KnowledgeBaseDocument' and source_id = gone.id
), search as (
    delete from pg_search_documents
    using gone
    where organization_id = $1 and searchable_type = 'KnowledgeBaseDocument' and searchable_id = gone.id
)
select id from gone;

-- name: document_by_id
-- A kept document of a kept source, or of none.
select document.id, document.organization_id, document.source_id, document.source_type, document.external_id,
    document.title, document.url, document.content_hash, document.content is not null as has_content,
    document.last_synced_at, document.chunks_synced_at, document.unreadable_reason, document.etag,
    document.last_modified, document.source_changed_at, document.source_version, document.language,
    document.listed_audience
from knowledge_base_documents document
left join knowledge_base_sources source
    on source.id = document.source_id and source.organization_id = document.organization_id
where document.organization_id = $1 and document.id = $2 and document.discarded_at is null
    and (document.source_id is null or source.discarded_at is null and source.id is not null);

-- name: content_for_chunks
-- What the chunk unit works on. Kept documents of kept sources only.
select document.id, document.title, document.url, document.language, document.content, document.content_hash,
    md5(document.content) as content_md5,
    exists (
        select from knowledge_base_document_sections link
        where link.organization_id = $1 and link.document_id = document.id
    ) as in_sections
from knowledge_base_documents document
left join knowledge_base_sources source
    on source.id = document.source_id and source.organization_id = document.organization_id
where document.organization_id = $1 and document.id = $2 and document.discarded_at is null
    and (document.source_id is null or source.discarded_at is null and source.id is not null);

-- name: hash_for_update
-- Holds the row while its chunks are replaced, so that the content they came from can't change in between. Another
-- application may write content and know no hash, so the text itself is compared as well.
select content_hash, md5(content) as content_md5
from knowledge_base_documents
where organization_id = $1 and id = $2 and discarded_at is null
for no key update;

-- name: settle_chunks
-- The chunks are those of the text: the document says so, and the unit that cut them ends with them, as of its start.
with ended as (
    update kbsync.unit_requests
    set ended_at = $4, ended_as = 'done'
    where organization_id = $1 and job_id = $3 and (ended_at is null or ended_at < $4)
)
update knowledge_base_documents
set chunks_synced_at = clock_timestamp(), updated_at = now()
where organization_id = $1 and id = $2;

-- name: store_content
-- What a document sync read. Equal content moves last_synced_at and nothing else of the text (LS-10). $10 and $11 are the
-- listing's version and time before the fetch, so that a listing in between leaves the document due. The audience ($12, kind
-- and groups) is as listed where the fetch says none; a listing that said another one in between ($13) knows better.
update knowledge_base_documents
set title = coalesce(nullif($3, ''), title),
    content = case when content_hash = $5 then content else $4 end,
    -- Chunks and the search row carry the title as well.
    chunks_synced_at = case when content_hash = $5 and title = coalesce(nullif($3, ''), title) then chunks_synced_at end,
    -- Links belong to the text that a crawl read; a crawl that finds none known asks for the page itself.
    links = case when content_hash = $5 then links end,
    content_hash = $5,
    content_truncated = $6,
    language = coalesce($7, language),
    etag = $8,
    last_modified = $9,
    audience = case
        when listed_audience is distinct from $13 then audience
        else split_part(coalesce($12, listed_audience, audience), E'\x1f', 1)
    end,
    audience_groups = case
        when listed_audience is distinct from $13 or coalesce($12, listed_audience) is null then audience_groups
        else (string_to_array(coalesce($12, listed_audience), E'\x1f'))[2:]
    end,
    synced_version = $10,
    synced_changed_at = $11,
    unreadable_reason = null,
    last_synced_at = clock_timestamp(),
    updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: confirm_unchanged
-- The provider says that nothing changed since the stored content.
update knowledge_base_documents
set last_synced_at = clock_timestamp(), synced_version = $3, synced_changed_at = $4, unreadable_reason = null,
    updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: mark_unreadable
-- Kept with what it had, and with the reason (LS-07).
update knowledge_base_documents
set unreadable_reason = $3, updated_at = now()
where organization_id = $1 and id = $2 and discarded_at is null;

-- name: chunks_are_due
-- Whether a kept document has content and no chunks.
select content is not null and content <> '' and chunks_synced_at is null
from knowledge_base_documents
where organization_id = $1 and id = $2 and discarded_at is null;
