-- Lets a job fetch from a host, or tells it a time of its own to come back (politeness of website fetches).
--
-- KEYS[1]  the host's hash: tat, frontier (us), hold (us), closed (ms), why
-- KEYS[2]  the host's slots: zset token -> lease end (ms)
-- KEYS[3]  the job's reserved time (us)
-- ARGV[1]  interval   us between two entries
-- ARGV[2]  at once    slots
-- ARGV[3]  token      new for each call
-- ARGV[4]  lease      ms after which a slot whose holder is gone is free again
-- ARGV[5]  now        us; '' is Redis's own TIME
-- Returns  {'entered'} | {'full' or 'paced', due us} | {'closed', due us, why}
--
-- tat is when the next entry may be, by what entered so far; frontier is when the next reservation may be, so it is never
-- behind tat. A job that comes at its time needs tat only; one without a reservation needs the frontier too, so it never
-- overtakes those that were told to wait. Each refusal moves the frontier by a whole interval: however many jobs wait,
-- they wake no faster than the host may be asked.
--
-- Invariant: entries are an interval apart, give or take the slack by which a late one may be followed early; no more
-- than `at once` live tokens; a job has at most one reserved time.
local now = tonumber(ARGV[5])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local interval, at_once, lease = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local now_ms = math.floor(now / 1000)
local SLACK, EARLY, FIRST_HOLD, KEEP = 250000, 1000, 500000, 60000
local function number(n) return string.format('%.0f', n) end

local got = redis.call('HMGET', KEYS[1], 'tat', 'frontier', 'hold', 'closed', 'why')
local tat, hold = tonumber(got[1]) or 0, tonumber(got[3]) or FIRST_HOLD
local frontier = math.max(tonumber(got[2]) or 0, tat)
local closed = tonumber(got[4]) or 0

local function keep()
  local last = math.max(frontier / 1000, closed, now_ms)
  redis.call('PEXPIRE', KEYS[1], number(last - now_ms + KEEP))
end
-- A job that waits for a slot wakes no sooner than slots come free.
local function come_back(word, earliest)
  local due = math.ceil(math.max(frontier, earliest))
  frontier = due + math.max(interval, hold / at_once, EARLY)
  redis.call('HSET', KEYS[1], 'frontier', number(frontier))
  redis.call('SET', KEYS[3], number(due), 'PX', number((due - now) / 1000 + KEEP))
  keep()
  return {word, number(due), got[5] or ''}
end

if closed > now_ms then return come_back('closed', closed * 1000) end

local held = tonumber(redis.call('GET', KEYS[3]) or '')
local matured = held and held <= now + EARLY
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', number(now_ms))
if redis.call('ZCARD', KEYS[2]) >= at_once then
  if held and not matured then return {'full', number(held), ''} end
  return come_back('full', now + hold / at_once)
end
if tat > now + EARLY or (not matured and frontier > now + EARLY) then
  if held and not matured then return {'paced', number(held), ''} end
  return come_back('paced', now + 1)
end

if held then redis.call('DEL', KEYS[3]) end
tat = math.max(tat, now - math.min(interval / 2, SLACK)) + interval
frontier = math.max(frontier, tat)
redis.call('HSET', KEYS[1], 'tat', number(tat), 'frontier', number(frontier))
keep()
redis.call('ZADD', KEYS[2], number(now_ms + lease), ARGV[3])
redis.call('PEXPIRE', KEYS[2], number(lease + KEEP))
return {'entered'}
