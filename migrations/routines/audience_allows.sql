-- Whether an asker may find a document of this audience (LS-27): the one rule of every statement that reads texts.
-- What is not known here (null, a kind of a newer version) is allowed to nobody.
create or replace function kbsync.audience_allows(
    p_audience text,
    p_audience_groups text[],
    p_is_member boolean,
    p_groups text[]
) returns boolean
language sql
immutable
parallel safe
as $$
    select case p_audience
        when 'public' then true
        when 'members' then coalesce(p_is_member, false)
        when 'groups' then coalesce(p_audience_groups && p_groups, false)
        else false
    end
$$;
revoke all on function kbsync.audience_allows from public;
grant execute on function kbsync.audience_allows to kbsync_library, kbsync_fleet;
