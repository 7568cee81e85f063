-- name: search
-- A page of documents that the asker ($9, $10) may find, by their best chunk, with what is shown of each.
select document_id, source_id, title, url, anchor, heading_path, content, configuration, query, score
from kbsync.search_chunks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: headlines
-- The passages of a page's texts around the words found; marks are characters that no text keeps (see search.py).
select ts_headline(u.configuration::regconfig, u.content, u.query::tsquery, $4) as headline
from unnest($1::text[], $2::text[], $3::text[]) with ordinality as u (configuration, content, query, number)
order by u.number;
