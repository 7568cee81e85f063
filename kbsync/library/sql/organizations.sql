-- name: insert_organization
-- A new tenant. Run as the fleet: no organization can make another one.
insert into organizations (name) values ($1) returning id;

-- name: organization_by_id
select id, name from organizations where id = $1;
