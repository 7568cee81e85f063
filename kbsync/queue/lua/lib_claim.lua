-- Taking ready jobs off the line, and holding what was taken under a lease (QU-08, QU-15, QU-16).

-- Takes `n` ready ids, the next in turn first; `since` counts claims since the last background one (Q:cfg bg). Every
-- 20th is background's even while others wait, and the clock of each band moves to the last start taken from it.
local function take_ready(n, since_before)
  local since = tonumber(since_before or 0)
  local turns = math.floor((since + n) / 20)
  local background = {}
  if turns > 0 then
    background = call('ZRANGE', Q, BAND_TEXT[2], '(0', 'BYSCORE', 'LIMIT', 0, turns)
    if #background > 0 then call('ZREM', Q, unpack(background)) end
  end
  local first = n > #background and call('ZRANGE', Q, 0, n - #background - 1) or {}
  local upto = {} -- upto[p]: how many of `first` are of band p or one before it
  if #first > 0 then
    local ends = call('ZMSCORE', Q, first[1], first[#first])
    local lowest, highest = band_of(tonumber(ends[1])), band_of(tonumber(ends[2]))
    for p = 0, 2 do
      if p < lowest then
        upto[p] = 0
      elseif p >= highest then
        upto[p] = #first
      else
        upto[p] = call('ZCOUNT', Q, '-inf', '(' .. BAND_TEXT[p + 1])
      end
    end
    -- Background taken out of turn leaves the clock alone, or what is older in its band would count as gone.
    if not clock then load_clock() end
    for p = lowest, highest do
      if upto[p] > (upto[p - 1] or 0) then
        local score = tonumber(p == highest and ends[2] or call('ZSCORE', Q, first[upto[p]]))
        local moved_to = score_text(math.max(clock[p], score))
        call('HSET', VT, 'v' .. p, moved_to)
        call('ZREMRANGEBYSCORE', TAGS, BAND_TEXT[p], moved_to)
      end
    end
    call('ZREMRANGEBYRANK', Q, 0, #first - 1)
  end

  local ids, taken = first, 0
  if #background > 0 then
    ids = {}
    for i = 1, #first do
      if since >= 19 and taken < #background then
        taken = taken + 1
        since = 0
        ids[#ids + 1] = background[taken]
      end
      ids[#ids + 1] = first[i]
      since = i > upto[1] and 0 or since + 1
    end
    while taken < #background do
      taken = taken + 1
      since = 0
      ids[#ids + 1] = background[taken]
    end
  else
    since = upto[2] > upto[1] and 0 or since + n
  end
  if since > 0 and call('ZCOUNT', Q, BAND_TEXT[2], '(0') == 0 then since = 0 end
  if since ~= tonumber(since_before or 0) then call('HSET', CFG, 'bg', since) end
  return ids
end

-- Longer than what a small sorted set may hold in its compact form, where every ZADD and ZREM reads the set from its
-- start: in one step it is put into Q:active and taken out again, which leaves the set in its quick form.
local BULKY = string.rep(' ', 65)

-- Makes `ids` active under `token`. Answers their payloads, and their metas, none when no job has one.
local function hold(ids, token, lease)
  local payloads, tokens, leases = {}, {}, {}
  local lease_end = score_text(now + lease)
  if #ids > 8 then leases = { lease_end, BULKY } end
  local skip = #leases
  for i = 1, #ids do
    local id = ids[i]
    payloads[i] = JOB .. id
    tokens[2 * i - 1] = TOKEN .. id
    tokens[2 * i] = token
    leases[2 * i - 1 + skip] = lease_end
    leases[2 * i + skip] = id
  end
  payloads = call('MGET', unpack(payloads))
  local metas = call('EXISTS', META) == 1 and call('HMGET', META, unpack(ids)) or {}
  many('MSET', nil, tokens)
  many('ZADD', ACTIVE, leases)
  if skip > 0 then call('ZREM', ACTIVE, BULKY) end
  return payloads, metas
end
