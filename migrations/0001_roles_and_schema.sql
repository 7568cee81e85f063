-- Roles that every transaction takes, and the schema of kbsync's own ledgers: rights follow the role, not the login.
-- old workers keep running: yes
do $$
declare
    role_name text;
begin
    foreach role_name in array array['kbsync_library', 'kbsync_fleet'] loop
        if not exists (select from pg_roles where rolname = role_name) then
            begin
                execute format('create role %I nologin', role_name);
            exception when duplicate_object or unique_violation then
                null; -- another database of the same cluster migrates at this moment
            end;
        end if;
        -- The login must be able to step down into the role.
        if not pg_has_role(current_user, role_name, 'member') then
            execute format('grant %I to %I', role_name, current_user);
        end if;
    end loop;
end
$$;

create schema if not exists kbsync;
grant usage on schema kbsync, public to kbsync_library, kbsync_fleet;
