-- Takes a slot of a fixed window for a job, or reserves the earliest later one (RL-02, RL-04, RL-05).
--
-- KEYS[1]  prefix of the scope's keys (ratelimits/scope.py spells the layout)
-- KEYS[2]  the data source's closed key
-- KEYS[3]  the index of scopes
-- ARGV[1]  limit         slots of a window, at least 1
-- ARGV[2]  window        its length in ms
-- ARGV[3]  job id
-- ARGV[4]  index member
-- ARGV[5]  index size    scopes the index keeps at most
-- ARGV[6]  now           ms; '' is Redis's own TIME, anything else is a test's simulated clock
-- Returns  {'go', now} | {'full', due ms} | {'closed', due ms, until ms, reason}
--
-- Invariant: u <= limit in every window whatever the number of clients; a job holds at most one reservation of a scope;
-- a job that is told to come back has its slot already counted, so its next take in that window counts nothing.
local limit, window, job = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local now = tonumber(ARGV[6])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local current = math.floor(now / window)

local function number(n) return string.format('%.0f', n) end
local function window_key(w) return KEYS[1] .. ':' .. number(w) end
-- One window more than needed: a reader may look at a window that has just ended.
local function keep_until(key, w) redis.call('PEXPIRE', key, number((w + 2) * window - now)) end
local function count(w, field, by)
  redis.call('HINCRBY', window_key(w), field, by)
end
local function slots(w)
  local got = redis.call('HMGET', window_key(w), 'n', 'u')
  return tonumber(got[1]) or 0, tonumber(got[2]) or 0
end
local function note(w)
  redis.call('HSET', window_key(w), 'l', limit)
  keep_until(window_key(w), w)
  redis.call('ZADD', KEYS[3], 'GT', number((w + 1) * window), ARGV[4])
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. number(now))
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -tonumber(ARGV[5]) - 1)
end

local closed_until, reason = 0, ''
local closed = redis.call('GET', KEYS[2])
if closed then
  local until_ms, why = string.match(closed, '^(%d+) (.*)$')
  if until_ms and tonumber(until_ms) > now then closed_until, reason = tonumber(until_ms), why end
end
local open = closed_until == 0
local function answer(due)
  if open then return {'full', number(due)} end
  return {'closed', number(math.max(due, closed_until)), number(closed_until), reason}
end

local first = open and current or math.floor(closed_until / window)
local job_key = KEYS[1] .. ':job:' .. job
local n, u = slots(current)
local room_now = open and n < limit

-- Where the walk over later windows begins. The frontier saves the windows that are known to be full. It holds for the limit
-- it was found with, and not when a closure that pushed it ahead was lifted early.
local frontier_key = KEYS[1] .. ':frontier'
local function walk_begins()
  local w = open and current + 1 or first
  local frontier = redis.call('GET', frontier_key)
  if frontier then
    local fw, flimit, funtil = string.match(frontier, '^(%d+) (%d+) (%d+)$')
    if tonumber(flimit) == limit and tonumber(funtil) <= math.max(closed_until, now) then w = math.max(w, tonumber(fw)) end
  end
  return w
end
local function earliest_with_room(before)
  local w = walk_begins()
  local given = slots(w)
  while given >= limit and not (before and w >= before) do
    w = w + 1
    given = slots(w)
  end
  return w, given
end

local held = redis.call('GET', job_key)
if held then
  local w, due = string.match(held, '^(%d+) (%d+)$')
  w, due = tonumber(w), tonumber(due)
  if open and w == current and u < limit then
    redis.call('DEL', job_key)
    count(current, 'u', 1)
    note(current)
    return {'go', number(now)}
  end
  if w > current or (w == current and not open and w >= first) then
    if room_now or earliest_with_room(w) < w then
      -- It came early and there is room before its window (a higher limit): the slot it held is free again.
      redis.call('DEL', job_key)
      count(w, 'n', -1)
    elseif w >= first then
      return answer(due)
    end
  end
end

if room_now then
  count(current, 'n', 1)
  count(current, 'u', 1)
  note(current)
  return {'go', number(now)}
end

local w, given = earliest_with_room()
count(w, 'n', 1)
note(w)
redis.call('SET', frontier_key, number(w) .. ' ' .. limit .. ' ' .. number(closed_until))
keep_until(frontier_key, w)
-- Spread over the window's first four fifths: no burst at its start, and time enough to come back inside it.
local due = math.ceil(w * window + window * (0.05 + 0.75 * given / limit))
redis.call('SET', job_key, number(w) .. ' ' .. number(due))
keep_until(job_key, w)
return answer(due)
