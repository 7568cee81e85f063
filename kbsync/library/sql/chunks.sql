-- name: chunks_of_document
-- What is there, to be compared by hash with what should be. The caller holds the document's row.
select id, content_hash
from document_chunks
where organization_id = $1 and source_type = 'KnowledgeBaseDocument' and source_id = $2
order by position, id;

-- name: remove_chunks
-- Chunks whose text the document no longer has.
delete from document_chunks
where organization_id = $1 and source_type = 'KnowledgeBaseDocument' and source_id = $2 and id = any ($3::bigint[]);

-- name: place_kept_chunks
-- Chunks whose text stays keep their ids and embeddings; rows that are right already are not written. The vector is made
-- again only when what it is made of (title, language) has changed: text and headings are in the hash.
update document_chunks as c
set position = n.position,
    anchor = n.anchor,
    start_offset = n.start_offset,
    end_offset = n.end_offset,
    title = $3,
    url = $4,
    language = config.name,
    searchable = case
        when c.title = $3 and c.language = config.name and c.searchable is not null then c.searchable
        else setweight(to_tsvector(config.name, $6), 'A')
            || setweight(to_tsvector(config.name, n.searchable_headings), 'B')
            || setweight(to_tsvector(config.name, n.searchable_text), 'D')
        end,
    partly_searchable = n.partly_searchable,
    updated_at = now()
from (
    select * from unnest($7::bigint[], $8::integer[], $9::text[], $10::integer[], $11::integer[], $12::text[],
        $13::text[], $14::boolean[])
        as u (id, position, anchor, start_offset, end_offset, searchable_headings, searchable_text, partly_searchable)
) as n,
(
    select coalesce(
        (select oid::regconfig from pg_ts_config where cfgname = $5 and cfgnamespace = 'pg_catalog'::regnamespace),
        'simple'::regconfig) as name
) as config
where c.id = n.id
    and c.organization_id = $1 and c.source_type = 'KnowledgeBaseDocument' and c.source_id = $2
    and (c.position, c.anchor, c.start_offset, c.end_offset, c.title, c.url, c.language, c.partly_searchable,
        c.searchable is null)
        is distinct from
        (n.position, n.anchor, n.start_offset, n.end_offset, $3, $4, config.name, n.partly_searchable, false);

-- name: add_chunks
-- Title weighs A, headings B, text D. A configuration that this server lacks is `simple`. Headings come joined by U+001F,
-- because arrays of arrays must be rectangles.
insert into document_chunks (
    organization_id, source_type, source_id, title, url, language, position, content, content_hash, heading_path, anchor,
    start_offset, end_offset, partly_searchable, searchable
)
select $1, 'KnowledgeBaseDocument', $2, $3, $4, config.name, n.position, n.content, n.content_hash,
    case when n.heading_path = '' then '{}' else string_to_array(n.heading_path, E'\x1f') end, n.anchor,
    n.start_offset, n.end_offset, n.partly_searchable,
    setweight(to_tsvector(config.name, $6), 'A')
        || setweight(to_tsvector(config.name, n.searchable_headings), 'B')
        || setweight(to_tsvector(config.name, n.searchable_text), 'D')
from unnest($7::integer[], $8::text[], $9::text[], $10::text[], $11::text[], $12::integer[], $13::integer[],
        $14::text[], $15::text[], $16::boolean[])
        as n (position, content, content_hash, heading_path, anchor, start_offset, end_offset,
            searchable_headings, searchable_text, partly_searchable),
    (
        select coalesce(
            (select oid::regconfig from pg_ts_config where cfgname = $5 and cfgnamespace = 'pg_catalog'::regnamespace),
            'simple'::regconfig) as name
    ) as config
order by n.position;

-- name: replace_search_row
-- The one row by which the document is found through pg_search; extra rows of the same document go.
with rows as (
    select id, row_number() over (order by id) as number
    from pg_search_documents
    where organization_id = $1 and searchable_type = 'KnowledgeBaseDocument' and searchable_id = $2
),
extra as (
    delete from pg_search_documents
    where organization_id = $1 and id in (select id from rows where number > 1)
),
changed as (
    update pg_search_documents
    set content = $3, updated_at = case when content is distinct from $3 then now() else updated_at end
    where organization_id = $1 and id in (select id from rows where number = 1)
    returning id
)
insert into pg_search_documents (organization_id, searchable_type, searchable_id, content)
select $1, 'KnowledgeBaseDocument', $2, $3
where not exists (select from changed);

-- name: discard_chunks_of_document
-- A discarded document is not found any more.
delete from document_chunks
where organization_id = $1 and source_type = 'KnowledgeBaseDocument' and source_id = $2;

-- name: discard_search_row
-- The pg_search side of the same.
delete from pg_search_documents
where organization_id = $1 and searchable_type = 'KnowledgeBaseDocument' and searchable_id = $2;
