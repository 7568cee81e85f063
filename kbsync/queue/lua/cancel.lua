-- cancel: waiting and delayed jobs end cancelled at once, active ones are asked to stop (QU-25, QU-31).
-- KEYS   the queue's keys
-- ARGV   keep done count, keep done ms, keep failed count, keep failed ms, keep bytes, then ids
-- returns  one letter an id: y cancelled, a asked to stop, e ended already, n not here
-- keeps  Only the run that holds the token now is asked: a later run of the id is never hit. A pending rerun goes too.
-- include: lib_keys lib_flow lib_end lib_trim lib_unwind
local letters, ids = {}, {}
for i = 6, #ARGV do
  local id = ARGV[i]
  local score = tonumber(call('ZSCORE', Q, id) or nil)
  local token = call('GET', TOKEN .. id)
  if score then
    letters[i - 5] = 'y'
    call('ZREM', Q, id)
    local payload = call('GET', JOB .. id)
    local p, tenant = whose(payload)
    if score < 0 then give_turn_back(p, tenant, score) end
    keep_record('x', id, unseen_tail(payload, call('HGET', META, id), 'cancelled', 'cancelled before it started'))
    owe(id, 'cancelled', payload)
    dels[#dels + 1] = JOB .. id
    call('HDEL', META, id)
    call('HDEL', AGAIN, id)
    ids[#ids + 1] = id
  elseif token then
    letters[i - 5] = 'a'
    call('HDEL', AGAIN, id)
    call('HSET', STOP, id, token)
  elseif call('EXISTS', RESULT .. id) == 1 then
    letters[i - 5] = 'e'
  else
    letters[i - 5] = 'n'
  end
end
save_ends()
if #ids > 0 then
  trim('x', tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5]))
  call('XADD', EVENTS, 'MAXLEN', '~', 1000, '*', 'cancelled', table.concat(ids, ' '))
end
return table.concat(letters)
