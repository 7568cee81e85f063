-- Search: the languages of an organization without reading its chunks, and title and heading words on their own.
-- old workers keep running: yes
create index if not exists document_chunks_languages on document_chunks (organization_id, language);
create index if not exists document_chunks_searchable_headings on document_chunks
    using gin (ts_filter(searchable, '{a,b}'));
-- Ranking reads every candidate's vector: out of line it would cost a second look-up each.
alter table document_chunks alter column searchable set storage main;
