-- Counts one more wait that a provider asked of a job, and says whether its bound is spent (RL-05).
--
-- KEYS[1]  the job's waits
-- ARGV[1]  most waits in a row
-- ARGV[2]  longest time from the first one   ms
-- ARGV[3]  this wait                         ms
-- ARGV[4]  '1' when it is a spent long quota: its time does not count, since the provider said how long it is
-- ARGV[5]  now                               ms; '' is Redis's own TIME
-- Returns  {1 when it counts as a failure else 0, waits in a row, ms since the first}
--
-- Invariant: the key outlives the wait it counts, by the longest time once more, so that sleeping never resets a bound.
local now = tonumber(ARGV[5])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local most, longest, wait = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local n = redis.call('HINCRBY', KEYS[1], 'n', 1)
redis.call('HSETNX', KEYS[1], 'first', string.format('%.0f', now))
local first = tonumber(redis.call('HGET', KEYS[1], 'first'))
local age = math.max(0, now - first)
local spent = (n > most or age >= longest) and 1 or 0
if ARGV[4] == '1' and spent == 0 then
  redis.call('HSET', KEYS[1], 'first', string.format('%.0f', math.max(now, first) + wait))
end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', wait + 2 * longest))
return {spent, n, age}
