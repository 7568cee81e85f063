-- counts: how many jobs are in each state, at one instant (QU-18).
-- KEYS   the queue's keys
-- ARGV   none
-- returns  {waiting, delayed, active, completed, skipped, cancelled, failed, 1 if paused}
-- keeps  Reads only, so it answers with Redis's memory full, where a transaction is refused.
-- include: lib_keys
local kept = call('HMGET', BYTES, 'nc', 'ns', 'nx', 'nf')
return {
  call('ZCOUNT', Q, '-inf', '(0'), call('ZCOUNT', Q, '0', '+inf'), call('ZCARD', ACTIVE), tonumber(kept[1] or 0),
  tonumber(kept[2] or 0), tonumber(kept[3] or 0), tonumber(kept[4] or 0), call('HEXISTS', CFG, 'paused'),
}
