-- name: owner_of_source
select organization_id from knowledge_base_sources where id = $1 and discarded_at is null;

-- name: owner_of_document
select organization_id from knowledge_base_documents where id = $1;

-- name: owner_of_crawl
select organization_id from knowledge_base_crawl_tasks where id = $1;

-- name: organizations_by_name
-- For a choice: the first ones by id are looked at, so that a million tenants are not sorted.
select id, name from (select id, name from organizations order by id limit $1) first order by lower(name), id;
