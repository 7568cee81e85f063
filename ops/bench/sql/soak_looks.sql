-- name: documents_read
-- Every document of an organization that has content.
select id, external_id from knowledge_base_documents where organization_id = $1 and content_hash is not null;

-- name: backends
-- Connections to this database, this one included.
select count(*) from pg_stat_activity where datname = current_database();

-- name: dead_tuples
-- Rows of ours that vacuum has still to take.
select coalesce(sum(n_dead_tup), 0)::int from pg_stat_user_tables;
