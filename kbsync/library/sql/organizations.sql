-- name: insert_organization
-- A new tenant. Run as the fleet: no organization can make another one.
insert into organizations (name) values ($1) returning id;

-- name: organization_by_id
select id, name from organizations where id = $1;

-- name: organization_by_name
-- For the people of this deployment, across tenants: the oldest of that name.
select id from organizations where name = $1 order by id limit 1;

-- name: names_of_organizations
-- What people call these tenants. Run as the fleet.
select id, name from organizations where id = any($1::bigint[]);
