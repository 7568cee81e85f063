-- The audience of a document once a listing has named it, kind and groups joined by U+001F (LS-27).
--
-- A listing that brings the text knows best, and so does the first one. A later one that says what the last one said leaves what
-- the document's own sync found. When it says something new and the document had another audience than was listed (a page of
-- its own restrictions in an open space), nobody finds it until its own sync, which is due then, has asked again.
create or replace function kbsync.audience_after_listing(
    p_audience text,
    p_audience_groups text[],
    p_listed text,
    p_listed_now text,
    p_brings_text boolean
) returns text
language sql
stable
parallel safe
as $$
    select case
        when p_brings_text or p_listed is null then p_listed_now
        when p_listed = p_listed_now then array_to_string(array[p_audience] || p_audience_groups, E'\x1f')
        when p_listed = array_to_string(array[p_audience] || p_audience_groups, E'\x1f') then p_listed_now
        else 'unknown'
    end
$$;
revoke all on function kbsync.audience_after_listing from public;
grant execute on function kbsync.audience_after_listing to kbsync_library, kbsync_fleet;
