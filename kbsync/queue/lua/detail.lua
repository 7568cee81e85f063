-- detail: all that is kept of one job, at one instant (QU-18).
-- KEYS   the queue's keys
-- ARGV   id
-- returns  {request, record, token, score in Q, lease end, meta, progress, rerun request, stop token}; nil where there is none
-- keeps  Reads only, so it answers with Redis's memory full, where a transaction is refused.
-- include: lib_keys
local id = ARGV[1]
return {
  call('GET', JOB .. id), call('GET', RESULT .. id), call('GET', TOKEN .. id), call('ZSCORE', Q, id),
  call('ZSCORE', ACTIVE, id), call('HGET', META, id), call('HGET', PROGRESS, id), call('HGET', AGAIN, id),
  call('HGET', STOP, id),
}
