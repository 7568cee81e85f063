-- name: insert_session
insert into kbsync.dashboard_sessions (digest, token_id) values ($1, $2);

-- name: live_session
-- Whose session this is while it and its token count; `stale`: its last look is worth writing down again.
select principals.id, principals.name, principals.kind, principals.roles, principals.organization_id,
    principals.groups, principals.public_only, tokens.id as token_id, sessions.seen_at < clock_timestamp() - interval '1 minute' as stale
from kbsync.dashboard_sessions sessions
join kbsync.tokens on tokens.id = sessions.token_id
join kbsync.principals on principals.id = tokens.principal_id
where sessions.digest = $1
    and sessions.seen_at > clock_timestamp() - make_interval(hours => $2)
    and sessions.created_at > clock_timestamp() - make_interval(days => $3)
    and tokens.revoked_at is null
    and (tokens.expires_at is null or tokens.expires_at > clock_timestamp());

-- name: touch_session
update kbsync.dashboard_sessions set seen_at = clock_timestamp() where digest = $1;

-- name: delete_session
delete from kbsync.dashboard_sessions where digest = $1 returning 1;

-- name: drop_old_sessions
-- Sessions past their time are nobody's already: this only frees their rows.
delete from kbsync.dashboard_sessions
where seen_at <= clock_timestamp() - make_interval(hours => $1)
    or created_at <= clock_timestamp() - make_interval(days => $2);

-- name: set_notice
update kbsync.dashboard_sessions set notice = $2::jsonb where digest = $1;

-- name: take_notice
-- The notice, taken by the one look that gets it.
with waiting as (
    select digest, notice from kbsync.dashboard_sessions where digest = $1 and notice is not null for update
)
update kbsync.dashboard_sessions sessions set notice = null
from waiting
where sessions.digest = waiting.digest
returning waiting.notice;
