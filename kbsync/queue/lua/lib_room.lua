-- How many jobs may start now, fleet-wide: pause (QU-13), max_active (QU-29) and limiter (QU-14).
-- Answers room, and the ms after which a used-up limiter has room again.
local function room_now(cfg)
  local paused, max_active, limit, window = cfg[1], tonumber(cfg[2]), tonumber(cfg[3]), tonumber(cfg[4])
  if paused then return 0 end
  local room = 1e9
  if max_active then room = math.max(max_active - call('ZCARD', ACTIVE), 0) end
  if limit then
    local number = math.floor(now / window)
    local left = math.max(limit - tonumber(call('GET', LIM .. number) or 0), 0)
    if left == 0 then return 0, (number + 1) * window - now end
    room = math.min(room, left)
  end
  return room
end

-- ms to the first due time and the first lease end, or nil when there is neither.
local function ms_to_next()
  local due = call('ZRANGE', Q, '0', '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  local lease = call('ZRANGE', ACTIVE, 0, 0, 'WITHSCORES')[2]
  local first = math.min(tonumber(due or 1e17), tonumber(lease or 1e17))
  if first < 1e17 then return math.max(first - now, 0) end
end
