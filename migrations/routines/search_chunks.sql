-- The best chunk of each document that a query finds, best documents first (LS-21).
--
-- It runs with its owner's rights: a policy on document_chunks must be applied before an operator that is not leakproof,
-- and @@ is not, so that under row security the text index could never be used. The wall stands in here instead: the
-- organization asked for must be the one the transaction was opened for, or nothing is found.
--
-- What the asker may not find (LS-27: p_is_member, p_groups) is left out before anything is counted, cut off or ranked, so that
-- no page tells of it by its length, its order or its gaps; and once more when documents are read. Most organizations have
-- nothing that is restricted, which one look into an index says.
--
-- p_query is in the words of domain.text.searchable_query. Each language the organization has reads it in its own way.
-- The 500 best chunks by how often the words stand in them are ranked closely; the rest stands behind them by that alone.
-- A score is: how dense and how often the words stand in the chunk (title and headings weighing more), raised by how many
-- of the document's chunks have them and by how well its title and the query agree. Beyond p_candidates matching chunks,
-- those with the words in title or headings are ranked, and as many others as there is room for.
drop function if exists kbsync.search_chunks(bigint, text, bigint, text, text, integer, integer, integer);
create or replace function kbsync.search_chunks(
    p_organization_id bigint,
    p_query text,
    p_source_id bigint,
    p_language text,
    p_configuration text,
    p_candidates integer,
    p_limit integer,
    p_offset integer,
    p_is_member boolean default false,
    p_groups text[] default '{}'
) returns table (
    document_id bigint, source_id bigint, title text, url text, anchor text, heading_path text[], content text,
    configuration text, query text, score double precision
)
language plpgsql
rows 10
stable
security definer
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    configurations regconfig[] := '{}';
    queries tsquery[] := '{}';
    wide tsquery;
    wanted text[];
    any_wanted tsquery;
    one regconfig;
    q tsquery;
    ids bigint[];
    hides boolean;
    refined constant integer := 500;
begin
    if p_organization_id is distinct from nullif(current_setting('kbsync.organization_id', true), '')::bigint then
        return;
    end if;

    -- A loose scan: one look into the index a language.
    for one in
        with recursive found as (
            (select c.language from document_chunks c where c.organization_id + 0 = p_organization_id order by c.language limit 1)
            union all
            select (select c.language from document_chunks c
                where c.organization_id + 0 = p_organization_id and c.language > f.language order by c.language limit 1)
            from found f where f.language is not null
        )
        select f.language from found f where f.language is not null
    loop
        q := websearch_to_tsquery(one, p_query);
        -- Words that a language never indexes, or nothing but exclusions, name nothing to look for.
        if numnode(q) > 0 and querytree(q) <> 'T' then
            configurations := configurations || one;
            queries := queries || q;
            wide := case when wide is null then q when q = any (queries[1:cardinality(queries) - 1]) then wide else wide || q end;
        end if;
    end loop;
    if wide is null then
        return;
    end if;

    wanted := array(
        select distinct replace(replace(m[1], '''''', ''''), '\\', '\')
        from unnest(queries) as u (t), regexp_matches(u.t::text, '''((?:[^'']|'''')+)''', 'g') as m
    );
    -- In the index's order: else a planner that expects many reads the table for the first.
    hides := (
        select true from knowledge_base_documents d
        where d.organization_id = p_organization_id and d.audience <> 'public'
            and d.audience = any (case when p_is_member then '{groups,unknown}' else '{members,groups,unknown}' end::text[])
        order by d.organization_id, d.audience
        limit 1
    ) is true;
    -- A look by key for each match: a join or an `exists` may be planned as a reading of all documents.
    ids := array(
        select c.id from document_chunks c
        where c.organization_id = p_organization_id and c.source_type = 'KnowledgeBaseDocument' and c.searchable @@ wide
            and (not hides or (
                select kbsync.audience_allows(d.audience, d.audience_groups, p_is_member, p_groups)
                from knowledge_base_documents d
                where d.id = c.source_id and d.organization_id = p_organization_id))
        limit p_candidates + 1
    );
    if cardinality(ids) > p_candidates then
        select string_agg('''' || replace(replace(w, '\', '\\'), '''', '''''') || '''', ' | ')::tsquery into any_wanted from unnest(wanted) as w;
        ids := array(
            select c.id from document_chunks c
            where c.organization_id = p_organization_id and c.source_type = 'KnowledgeBaseDocument'
                and ts_filter(c.searchable, '{a,b}') @@ any_wanted and c.searchable @@ wide
                and (not hides or (
                    select kbsync.audience_allows(d.audience, d.audience_groups, p_is_member, p_groups)
                    from knowledge_base_documents d
                    where d.id = c.source_id and d.organization_id = p_organization_id))
            limit p_candidates / 2
        ) || ids[1:p_candidates / 2];
    end if;

    return query
    with weighed as (
        select c.id, c.source_id as document, t.own, c.searchable,
            ts_rank('{0.1, 0.2, 0.4, 1.0}', c.searchable, t.own, 1) as weight
        from document_chunks c
        join lateral (select queries[array_position(configurations, c.language)] as own) t on t.own is not null
        where c.id = any (ids) and c.organization_id = p_organization_id
            and (cardinality(queries) = 1 or c.searchable @@ t.own)
    ),
    placed as (
        select w.*, row_number() over (order by w.weight desc, w.id) <= refined as close from weighed w
    ),
    ranked as (
        select p.id, p.document, p.own, p.close, p.weight,
            case when p.close then ts_rank_cd('{0.1, 0.2, 0.4, 1.0}', p.searchable, p.own, 4) else 0 end as density
        from placed p
    ),
    best as (
        select distinct on (r.document) r.id, r.document, r.own, r.close,
            r.density + r.weight as own_score,
            count(*) over (partition by r.document) as matching
        from ranked r
        order by r.document, r.density + r.weight desc, r.id
    ),
    page as (
        select b.id, b.document, b.own, d.source_id, d.title, d.url,
            (b.own_score * (1 + ln(b.matching) / 4)
                * (1 + 0.6 * t.found / cardinality(wanted) + 0.4 * t.found / greatest(t.words, 1)))::double precision as score
        from best b
        join lateral (
            select count(*) as words, count(*) filter (where w = any (wanted)) as found
            from document_chunks c, unnest(tsvector_to_array(ts_filter(c.searchable, '{a}'))) as w
            where c.id = b.id and b.close
        ) t on true
        join knowledge_base_documents d on d.id = b.document and d.organization_id = p_organization_id
        where d.discarded_at is null
            and kbsync.audience_allows(d.audience, d.audience_groups, p_is_member, p_groups)
            and (p_source_id is null or d.source_id = p_source_id)
            and (p_language is null
                or lower(split_part(replace(d.language, '_', '-'), '-', 1)) = p_language
                or (d.language is null and p_configuration <> 'simple' and exists (
                    select from document_chunks c where c.id = b.id and c.language::text = p_configuration)))
        order by 7 desc, b.document
        limit p_limit offset p_offset
    )
    select p.document, p.source_id, p.title, p.url, c.anchor, c.heading_path, c.content, c.language::text, p.own::text, p.score
    from page p
    join document_chunks c on c.id = p.id and c.organization_id = p_organization_id
    order by p.score desc, p.document;
end
$$;
revoke all on function kbsync.search_chunks from public;
grant execute on function kbsync.search_chunks to kbsync_library;
