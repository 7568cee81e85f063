-- oldest: since when the oldest waiting job has been in line, as far as the heads of the line show (OP-05).
-- KEYS   the queue's keys
-- ARGV   1 how many heads to look at in each priority's band
-- returns  ms when it was enqueued, by its producer's clock, or -1 when none waits (or none can be read)
-- keeps  Reads only. Within a tenant order is first in, first out, so each tenant's oldest is near the head of its band.
-- include: lib_keys lib_flow
local first = -1
for p = 0, 2 do
  local upto = p < 2 and '(' .. string.format('%.0f', BAND[p + 1]) or '(0'
  for _, id in ipairs(call('ZRANGE', Q, string.format('%.0f', BAND[p]), upto, 'BYSCORE', 'LIMIT', 0, tonumber(ARGV[1]))) do
    local enqueued = tonumber(string.match(call('GETRANGE', JOB .. id, 0, 255), '^%[[012],"[^"]*","[^"\\]*",(%d+)[,%]]') or -1)
    if enqueued >= 0 and (first < 0 or enqueued < first) then first = enqueued end
  end
end
return first
