-- configure: pause, resume, limiter and max_active of a queue (QU-13, QU-14, QU-29).
-- KEYS   the queue's keys
-- ARGV   event to note or empty, then (field, value; an empty value removes the field)*
-- returns  1 if anything changed, else 0
-- keeps  Whoever waits blocked looks again, so that new room is used at once.
-- include: lib_keys
local changed = 0
for i = 2, #ARGV, 2 do
  if (call('HGET', CFG, ARGV[i]) or '') ~= ARGV[i + 1] then
    changed = 1
    if ARGV[i + 1] == '' then call('HDEL', CFG, ARGV[i]) else call('HSET', CFG, ARGV[i], ARGV[i + 1]) end
  end
end
if changed == 1 then
  if ARGV[1] ~= '' then call('XADD', EVENTS, 'MAXLEN', '~', 1000, '*', ARGV[1], '') end
  if call('LLEN', WAKE) == 0 and not call('HGET', CFG, 'paused') then call('LPUSH', WAKE, '1') end
end
return changed
