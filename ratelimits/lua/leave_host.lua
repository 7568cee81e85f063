-- Frees a slot of a host and learns how long slots are held.
--
-- KEYS[1]  the host's hash
-- KEYS[2]  the host's slots
-- ARGV[1]  token
-- ARGV[2]  lease   ms, as it was taken with
-- ARGV[3]  now     us; '' is Redis's own TIME
-- Returns  1 when the token held a slot, else 0
--
-- Invariant: a token frees its own slot, once; hold is a moving mean in us and needs no exactness.
local lease_end = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or '')
if not lease_end then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
local now = tonumber(ARGV[3])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  local held = math.max(0, now - (lease_end - tonumber(ARGV[2])) * 1000)
  local hold = tonumber(redis.call('HGET', KEYS[1], 'hold') or '') or held
  redis.call('HSET', KEYS[1], 'hold', string.format('%.0f', hold * 0.8 + held * 0.2))
end
return 1
