-- Closes a data source until a time; a closure that lasts longer stays (RL-05).
--
-- KEYS[1]  the data source's closed key
-- KEYS[2]  the index of closures
-- ARGV[1]  wait         ms from now, at least 1
-- ARGV[2]  reason
-- ARGV[3]  index member
-- ARGV[4]  index size   closures the index keeps at most
-- ARGV[5]  now          ms; '' is Redis's own TIME
-- Returns  until ms of the closure that holds now
--
-- Invariant: closing never shortens a closure, and the key is gone when the closure has ended.
local now = tonumber(ARGV[5])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local wait = tonumber(ARGV[1])
local closed = redis.call('GET', KEYS[1])
local held = closed and tonumber(string.match(closed, '^(%d+) ')) or 0
if held >= now + wait then return string.format('%.0f', held) end
local until_ms = string.format('%.0f', now + wait)
redis.call('SET', KEYS[1], until_ms .. ' ' .. ARGV[2], 'PX', string.format('%.0f', wait))
redis.call('ZADD', KEYS[2], until_ms, ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. string.format('%.0f', now))
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -tonumber(ARGV[4]) - 1)
return until_ms
