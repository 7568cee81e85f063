-- remove: forgets jobs that are not running (QU-19, QU-31).
-- KEYS   the queue's keys
-- ARGV   reason (removed or drained), then ids
-- returns  one letter an id: y removed, e a kept ended job removed, a active (refused), n not here
-- keeps  A waiting or delayed job that goes is owed to `abandoned`; an active one is never touched.
-- include: lib_keys lib_flow lib_end lib_unwind
local letters, ids = {}, {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local score = tonumber(call('ZSCORE', Q, id) or nil)
  if score then
    letters[i - 1] = 'y'
    call('ZREM', Q, id)
    local payload = call('GET', JOB .. id)
    local p, tenant = whose(payload)
    if score < 0 then give_turn_back(p, tenant, score) end
    owe(id, ARGV[1], payload)
    dels[#dels + 1] = JOB .. id
    call('HDEL', META, id)
    call('HDEL', AGAIN, id)
    ids[#ids + 1] = id
  elseif call('ZSCORE', ACTIVE, id) then
    letters[i - 1] = 'a'
  elseif string.match(call('GETRANGE', RESULT .. id, 0, 63), '^%["[csxf]","') then
    drop_record(id)
    letters[i - 1] = 'e'
  else
    letters[i - 1] = 'n'
  end
end
save_drops()
save_ends()
if #ids > 0 then call('XADD', EVENTS, 'MAXLEN', '~', 1000, '*', ARGV[1], table.concat(ids, ' ')) end
return table.concat(letters)
