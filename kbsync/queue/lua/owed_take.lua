-- owed_take: hands out ends that are owed to `abandoned` (QU-31); what is not acknowledged in time is handed out again.
-- KEYS   the queue's keys
-- ARGV   how many, ms until an unacknowledged one is offered again
-- returns  the entries
-- keeps  An entry stands in owed or owing until it is acknowledged.
-- include: lib_keys
local taken = call('ZRANGE', OWING, '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[1])
while #taken < tonumber(ARGV[1]) do
  local entry = call('LPOP', OWED)
  if not entry then break end
  taken[#taken + 1] = entry
end
for _, entry in ipairs(taken) do call('ZADD', OWING, now + ARGV[2], entry) end
return taken
