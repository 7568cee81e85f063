-- rates: how many jobs came in, ended, failed and were delayed in each of the last minutes (OP-05).
-- KEYS   the queue's keys
-- ARGV   1 minutes, the one that runs included
-- returns  {now ms, then i, o, f, d of each minute, oldest first}
-- keeps  Reads only.
-- include: lib_keys
local minute, fields = math.floor(now / 60000), {}
for m = minute - tonumber(ARGV[1]) + 1, minute do
  for _, letter in ipairs({ 'i', 'o', 'f', 'd' }) do fields[#fields + 1] = m .. ':' .. letter end
end
local counts = call('HMGET', RATES, unpack(fields))
for at = 1, #counts do counts[at] = tonumber(counts[at] or 0) end
table.insert(counts, 1, now)
return counts
