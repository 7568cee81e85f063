-- Closes a host until a time; a closure that lasts longer stays.
--
-- KEYS[1]  the host's hash
-- ARGV[1]  wait     ms from now, at least 1
-- ARGV[2]  reason
-- ARGV[3]  now      us; '' is Redis's own TIME
-- Returns  until ms of the closure that holds now
--
-- Invariant: closing never shortens a closure, and the hash outlives it.
local now = tonumber(ARGV[3])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local until_ms = math.floor(now / 1000) + tonumber(ARGV[1])
local held = tonumber(redis.call('HGET', KEYS[1], 'closed') or '') or 0
if held >= until_ms then return string.format('%.0f', held) end
redis.call('HSET', KEYS[1], 'closed', string.format('%.0f', until_ms), 'why', ARGV[2])
local left = redis.call('PTTL', KEYS[1])
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(left, tonumber(ARGV[1]) + 60000)))
return string.format('%.0f', until_ms)
