-- counts: how many jobs are in each state, at one instant (QU-18).
-- KEYS   the queue's keys
-- ARGV   none
-- returns  {waiting, delayed, active, completed, skipped, cancelled, failed, 1 if paused}
-- keeps  Reads only, so it answers with Redis's memory full, where a transaction is refused.
-- include: lib_keys
return {
  call('ZCOUNT', Q, '-inf', '(0'), call('ZCOUNT', Q, '0', '+inf'), call('ZCARD', ACTIVE), call('XLEN', IDX.c),
  call('XLEN', IDX.s), call('XLEN', IDX.x), call('XLEN', IDX.f), call('HEXISTS', CFG, 'paused'),
}
