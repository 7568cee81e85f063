-- The last step of erasing an organization (LS-26): what kbsync's roles may otherwise only add to. Its people with their tokens
-- and sessions, its audit entries, its bulk actions, its flag gates, and its own row.
--
-- It runs with its owner's rights and takes nothing from an organization that still has a source, a document or a unit.
-- Deletes at most `most` audit entries a call; answers how many rows went, and whether nothing is left. A row of organizations that
-- another application's rows still point to stays.
create or replace function kbsync.erase_organization_rest(organization bigint, most integer)
returns table (went bigint, is_done boolean)
language plpgsql
security definer
set search_path = pg_catalog, public, pg_temp
as $$
declare
    gone bigint;
begin
    if exists (select from knowledge_base_sources where organization_id = organization)
        or exists (select from knowledge_base_documents where organization_id = organization)
        or exists (select from kbsync.unit_requests where organization_id = organization)
    then
        raise exception 'organization % still has rows in the library', organization;
    end if;
    went := 0;
    delete from kbsync.audit_entries
    where id in (select id from kbsync.audit_entries where organization_id = organization limit most);
    get diagnostics gone = row_count;
    went := went + gone;
    is_done := gone < most;
    if is_done then
        delete from kbsync.dashboard_sessions session
        using kbsync.tokens token, kbsync.principals principal
        where session.token_id = token.id and token.principal_id = principal.id
            and principal.organization_id = organization;
        get diagnostics gone = row_count;
        went := went + gone;
        delete from kbsync.tokens token using kbsync.principals principal
        where token.principal_id = principal.id and principal.organization_id = organization;
        get diagnostics gone = row_count;
        went := went + gone;
        delete from kbsync.principals where organization_id = organization;
        get diagnostics gone = row_count;
        went := went + gone;
        delete from kbsync.bulk_actions where tenant = 'org-' || organization;
        get diagnostics gone = row_count;
        went := went + gone;
        delete from flipper_gates where key = 'actors' and value = 'Organization;' || organization;
        get diagnostics gone = row_count;
        went := went + gone;
        begin
            delete from organizations where id = organization;
            get diagnostics gone = row_count;
            went := went + gone;
        exception when foreign_key_violation then
            null;
        end;
    end if;
    return next;
end
$$;
revoke all on function kbsync.erase_organization_rest from public;
grant execute on function kbsync.erase_organization_rest to kbsync_fleet;
