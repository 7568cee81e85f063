-- name: sealed_after
-- A keyset page of sealed credentials, of removed connections too: a key is needed for as long as one of them has it.
select id, organization_id, sealed_credentials
from data_sources
where sealed_credentials is not null and id > $1
order by id
limit $2;

-- name: reseal_if_unchanged
-- Under another key. No row when somebody entered new ones meanwhile.
update data_sources set sealed_credentials = $3, updated_at = now()
where id = $1 and sealed_credentials = $2
returning id;
