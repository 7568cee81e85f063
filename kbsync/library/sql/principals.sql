-- name: principal_of_digest
-- Whose token this is, while it counts: not revoked, not expired by the database's clock.
select tokens.id as token_id, tokens.digest, principals.id, principals.name, principals.kind, principals.roles,
    principals.organization_id, principals.groups, principals.public_only
from kbsync.tokens
join kbsync.principals on principals.id = tokens.principal_id
where tokens.digest = $1
    and tokens.revoked_at is null
    and (tokens.expires_at is null or tokens.expires_at > clock_timestamp());

-- name: insert_principal_if_absent
-- A name is a principal once; no row when it is taken.
insert into kbsync.principals (name, kind, roles, organization_id, groups, public_only)
values ($1, $2, $3, $4, $5, $6)
on conflict (name) do nothing
returning id;

-- name: principal_named
select id, name, kind, roles, organization_id, groups, public_only from kbsync.principals where name = $1;

-- name: insert_token
-- Only the digest is kept; the hint is the part of the text that people recognise it by.
insert into kbsync.tokens (principal_id, digest, hint, expires_at) values ($1, $2, $3, $4) returning id;

-- name: all_tokens
-- Every token with its principal, newest first.
select tokens.id, principals.name, principals.kind, principals.roles, principals.organization_id, principals.groups,
    principals.public_only, tokens.hint, tokens.created_at, tokens.expires_at, tokens.revoked_at
from kbsync.tokens
join kbsync.principals on principals.id = tokens.principal_id
order by tokens.id desc;

-- name: revoke_token_if_live
-- From now on the token is nobody's; no row when it is unknown or revoked already.
update kbsync.tokens set revoked_at = clock_timestamp() where id = $1 and revoked_at is null returning id;
