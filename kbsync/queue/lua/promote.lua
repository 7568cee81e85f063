-- promote: delayed jobs become ready now (QU-19).
-- KEYS   the queue's keys
-- ARGV   ids
-- returns  one letter an id: y promoted, w already waiting, n not delayed here
-- keeps  Pause, limiter and max_active still hold: a promoted job waits like any other.
-- include: lib_keys lib_flow
local letters, places, ids = {}, {}, {}
for i, id in ipairs(ARGV) do
  local score = tonumber(call('ZSCORE', Q, id) or nil)
  if not score then
    letters[i] = 'n'
  elseif score < 0 then
    letters[i] = 'w'
  else
    letters[i] = 'y'
    call('PERSIST', JOB .. id)
    local p, tenant = whose(call('GETRANGE', JOB .. id, 0, 120))
    places[#places + 1] = start(p, flow_of_returned(tenant))
    places[#places + 1] = id
    ids[#ids + 1] = id
  end
end
if #ids > 0 then
  many('ZADD', Q, places)
  save_flows()
  call('XADD', EVENTS, 'MAXLEN', '~', 1000, '*', 'promoted', table.concat(ids, ' '))
  if call('LLEN', WAKE) == 0 and not call('HGET', CFG, 'paused') then call('LPUSH', WAKE, '1') end
end
return table.concat(letters)
