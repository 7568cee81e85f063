-- Reads one scope's window for a dashboard.
--
-- KEYS[1]  prefix of the scope's keys
-- KEYS[2]  the data source's closed key
-- ARGV[1]  window        ms
-- ARGV[2]  look ahead    windows to look at, at most
-- ARGV[3]  now           ms; '' is Redis's own TIME
-- Returns  {used, limit ('' when unknown), reserved ahead, closed until ms ('0' when open), reason, window end ms}
--
-- Invariant: writes nothing, and looks at no more windows than it was told to.
local now = tonumber(ARGV[3])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local window = tonumber(ARGV[1])
local current = math.floor(now / window)
local function number(n) return string.format('%.0f', n) end
local got = redis.call('HMGET', KEYS[1] .. ':' .. number(current), 'n', 'u', 'l')
local used = tonumber(got[2]) or 0
local limit = got[3]
local ahead = (tonumber(got[1]) or 0) - used
local frontier = redis.call('GET', KEYS[1] .. ':frontier')
if frontier then
  local last, flimit, funtil = string.match(frontier, '^(%d+) (%d+) (%d+)$')
  limit = limit or flimit
  local first = math.max(current + 1, math.floor(tonumber(funtil) / window))
  if tonumber(funtil) <= now then first = current + 1 end
  for w = first, math.min(tonumber(last), first + tonumber(ARGV[2]) - 1) do
    ahead = ahead + (tonumber(redis.call('HGET', KEYS[1] .. ':' .. number(w), 'n')) or 0)
  end
end
local until_ms, reason = '0', ''
local closed = redis.call('GET', KEYS[2])
if closed then
  local at, why = string.match(closed, '^(%d+) (.*)$')
  if at and tonumber(at) > now then until_ms, reason = at, why end
end
return {used, limit or '', ahead, until_ms, reason, number((current + 1) * window)}
