-- name: upsert_listed_sections
-- A batch of listed sections, in one order so that parallel runs cannot deadlock. One that was discarded is back. Chunks carry
-- the titles of their document's sections, so those below one that has another title are due again.
with recursive listed as (
    select external_id, external_key, title, position, parent_key
    from unnest($4::text[], $5::text[], $6::text[], $7::int[], $8::text[])
        as listed (external_id, external_key, title, position, parent_key)
), renamed as (
    select section.id
    from knowledge_base_sections section
    join listed on listed.external_key = section.external_key and listed.title <> section.title
    where section.organization_id = $1 and section.source_id = $2
    union
    select child.id
    from renamed
    join knowledge_base_sections child on child.parent_id = renamed.id and child.organization_id = $1
), written as (
    insert into knowledge_base_sections as known
        (organization_id, source_id, external_id, external_key, title, position, parent_external_key, seen_in_run)
    select $1, $2, listed.external_id, listed.external_key, listed.title, listed.position, listed.parent_key, $3
    from listed
    order by listed.external_key
    on conflict (organization_id, source_id, external_key) do update
    set title = excluded.title,
        position = excluded.position,
        parent_external_key = excluded.parent_external_key,
        seen_in_run = greatest(known.seen_in_run, excluded.seen_in_run),
        discarded_at = null,
        updated_at = now()
)
update knowledge_base_documents
set chunks_synced_at = null, updated_at = now()
where organization_id = $1 and chunks_synced_at is not null
    and id in (
        select link.document_id
        from knowledge_base_document_sections link
        where link.organization_id = $1 and link.section_id in (select id from renamed)
    );

-- name: link_parents
-- Once every section of the run is there: a parent may be listed after its children.
update knowledge_base_sections child
set parent_id = parent.id
from knowledge_base_sections same
left join knowledge_base_sections parent
    on parent.organization_id = same.organization_id and parent.source_id = same.source_id
    and parent.external_key = same.parent_external_key and parent.id <> same.id
where child.id = same.id and child.organization_id = $1
    and same.organization_id = $1 and same.source_id = $2 and same.seen_in_run = $3
    and child.parent_id is distinct from parent.id;

-- name: replace_document_sections
-- The sections of listed documents, exactly as listed; the caller has just written their rows. A section that is not listed yet gets a row without a title.
with listed as (
    select document_id, external_id, external_key
    from unnest($3::bigint[], $4::text[], $5::text[]) as pair (document_id, external_id, external_key)
), stubs as (
    insert into knowledge_base_sections (organization_id, source_id, external_id, external_key)
    select distinct $1::bigint, $2::bigint, listed.external_id, listed.external_key
    from listed
    where listed.external_key is not null
    order by 4
    on conflict (organization_id, source_id, external_key) do nothing
    returning id, external_key
), wanted as (
    select distinct listed.document_id, section.id as section_id
    from listed
    join (
        select id, external_key from stubs
        union
        select id, external_key from knowledge_base_sections where organization_id = $1 and source_id = $2
    ) section on section.external_key = listed.external_key
), gone as (
    delete from knowledge_base_document_sections old
    where old.organization_id = $1
        and old.document_id = any($3::bigint[])
        and not exists (
            select from wanted where wanted.document_id = old.document_id and wanted.section_id = old.section_id
        )
    returning old.document_id
), added as (
    insert into knowledge_base_document_sections (organization_id, document_id, section_id)
    select $1, wanted.document_id, wanted.section_id
    from wanted
    join knowledge_base_documents document
        on document.id = wanted.document_id and document.organization_id = $1
    order by wanted.document_id, wanted.section_id
    on conflict (document_id, section_id) do nothing
    returning document_id
)
-- Chunks carry their document's sections, so those of a document that moved are due again.
update knowledge_base_documents
set chunks_synced_at = null, updated_at = now()
where organization_id = $1 and chunks_synced_at is not null
    and id in (select document_id from gone union select document_id from added);

-- name: discard_unseen_sections
-- Sections that a complete listing did not name; with $4 only those without a kept document.
update knowledge_base_sections section
set discarded_at = now(), updated_at = now()
where organization_id = $1 and source_id = $2 and discarded_at is null and seen_in_run is distinct from $3
    and not ($4 and exists (
        select
        from knowledge_base_document_sections link
        join knowledge_base_documents document
            on document.id = link.document_id and document.organization_id = $1 and document.discarded_at is null
        where link.organization_id = $1 and link.section_id = section.id
    ));

-- name: section_paths_of_document
-- The titles from the outermost section to each section that holds the document. 50 levels end a circle.
with recursive path as (
    select link.section_id as leaf, section.parent_id, array[section.title] as titles, 1 as depth
    from knowledge_base_document_sections link
    join knowledge_base_sections section on section.id = link.section_id and section.organization_id = $1
    where link.organization_id = $1 and link.document_id = $2 and section.discarded_at is null
    union all
    select path.leaf, section.parent_id, section.title || path.titles, path.depth + 1
    from path
    join knowledge_base_sections section on section.id = path.parent_id and section.organization_id = $1
    where path.depth < 50
)
select distinct on (leaf) leaf, titles from path order by leaf, depth desc;
