-- peek: what an idle or busy worker must know without claiming, in relative ms (QU-10, QU-23, QU-25).
-- KEYS   the queue's keys
-- ARGV   none
-- returns  {1 if something is ready and allowed, ms to the next due time, lease end or limiter window or -1,
--          number of owed ends, then (id, token)* of runs asked to stop}
-- keeps  A ready and allowed job always has a wake token or a claim on its way.
-- include: lib_keys lib_room
local ready = call('ZCOUNT', Q, '-inf', '(0')
local room, window_ms = 0, nil
if ready > 0 then room, window_ms = room_now(call('HMGET', CFG, 'paused', 'max_active', 'limit', 'window')) end
local answer = { 0, -1, call('LLEN', OWED) + call('ZCOUNT', OWING, '-inf', now) }
if ready > 0 and room > 0 then
  answer[1] = 1
  if call('LLEN', WAKE) == 0 then call('LPUSH', WAKE, '1') end
end
local ms = ms_to_next()
if ready > 0 and window_ms then ms = math.min(ms or window_ms, window_ms) end
if ms then answer[2] = ms end
for _, value in ipairs(call('HGETALL', STOP)) do answer[#answer + 1] = value end
return answer
