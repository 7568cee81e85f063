-- exchange: finish what ended, reclaim what lost its holder, promote what is due, claim what is ready: one atomic step
-- (QU-05 to QU-09, QU-11, QU-13 to QU-17, QU-29).
-- KEYS   the queue's keys (lib_keys)
-- ARGV   1 token of what is claimed here, 2 lease ms, 3 wanted, 4 number of finishes, 5 max stalls,
--        6 keep done count, 7 keep done ms, 8 keep failed count, 9 keep failed ms, 10 keep bytes,
--        then (id, letter + token, value)*; letter and value:
--          c completed, s skipped, f failed, x cancelled, p payload refused, t timed out: value = record from its third element
--          d delayed (no attempt), r a failed attempt's backoff: value = ms, a space, the JSON tail of the job's meta
--          b back untouched: value empty
-- returns  {1 if more is ready and allowed, ms to the next thing to do or -1, now ms, numbers of stale finishes joined
--          by commas, then (id, payload, meta)* of what was claimed}
-- keeps  Only the holder of the token changes an active job. Nothing enters active past pause, limiter and max_active.
--        The first write is one that Redis takes with its memory full, so that work can end and make room.
-- include: lib_keys lib_flow lib_end lib_room lib_rates
local token, lease, want, finishes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local max_stalls = tonumber(ARGV[5])
local keep_done, keep_done_ms, keep_failed, keep_failed_ms = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local keep_bytes = tonumber(ARGV[10])
local cfg = call('HMGET', CFG, 'paused', 'max_active', 'limit', 'window', 'bg')
local stale, happened, touched = {}, {}, {}
local over, places, ended, metas = {}, {}, {}, {}
local STATE = { c = 'c', s = 's', x = 'x', f = 'f', p = 'f', t = 'f' }
local NAME = { c = 'completed', s = 'skipped', x = 'cancelled', f = 'failed', p = 'failed', t = 'failed', d = 'delayed', r = 'retried', b = 'returned' }
local UNSEEN = { p = 'payload_refused', t = 'timed_out', x = 'cancelled' }

local function note(event, id)
  local ids = happened[event]
  if not ids then
    ids = {}
    happened[event] = ids
  end
  ids[#ids + 1] = id
end

local function place(id, score)
  places[#places + 1] = score
  places[#places + 1] = id
end

local function end_unseen(id, letter, reason, payload, meta, kind_of_error, message)
  keep_record(letter, id, unseen_tail(payload, meta, kind_of_error, message))
  owe(id, reason, payload)
  touched[letter] = true
  dels[#dels + 1] = JOB .. id
  ended[#ended + 1] = id
end

local function count(meta) return string.match(meta or '0,0,0', '^(%d+),(%d+),(%d+)(.*)$') end

-- A run is over but its job is not: the dirty bit is spent on the run to come, which reads the newer request.
local function take_dirty_bit(id, any)
  local newer = any and call('HGET', AGAIN, id)
  if newer then
    call('HDEL', AGAIN, id)
    sets[#sets + 1] = JOB .. id
    sets[#sets + 1] = newer
  end
  return newer
end

local any_aside = (finishes > 0 or call('ZCARD', ACTIVE) > 0) and call('EXISTS', AGAIN, STOP, META, PROGRESS) > 0

if finishes > 0 then
  local holders = {}
  for i = 1, finishes do holders[i] = TOKEN .. ARGV[8 + 3 * i] end
  holders = call('MGET', unpack(holders))
  for i = 1, finishes do
    if holders[i] and holders[i] == string.sub(ARGV[9 + 3 * i], 2) then over[#over + 1] = ARGV[8 + 3 * i] end
  end
  if #over > 0 then many('ZREM', ACTIVE, over) end
  for i = 1, finishes do
    local id, letter, value = ARGV[8 + 3 * i], string.sub(ARGV[9 + 3 * i], 1, 1), ARGV[10 + 3 * i]
    if not holders[i] or holders[i] ~= string.sub(ARGV[9 + 3 * i], 2) then
      stale[#stale + 1] = i
    else
      dels[#dels + 1] = TOKEN .. id
      local newer = any_aside and call('HGET', AGAIN, id)
      local stopping = any_aside and call('HGET', STOP, id) == holders[i]
      if STATE[letter] and newer then
        call('HDEL', AGAIN, id)
        sets[#sets + 1] = JOB .. id
        sets[#sets + 1] = newer
        place(id, start(whose(newer)))
        ended[#ended + 1] = id
        note('rerun', id)
      elseif STATE[letter] then
        keep_record(STATE[letter], id, value)
        if UNSEEN[letter] then owe(id, UNSEEN[letter], call('GET', JOB .. id)) end
        touched[STATE[letter]] = true
        dels[#dels + 1] = JOB .. id
        ended[#ended + 1] = id
      elseif stopping then
        local meta = call('HGET', META, id)
        end_unseen(id, 'x', 'cancelled', call('GET', JOB .. id), meta, 'cancelled', 'it was asked to stop')
        letter = 'x'
      elseif letter == 'b' then
        local newest = take_dirty_bit(id, any_aside) or call('GETRANGE', JOB .. id, 0, 120)
        local p, tenant = whose(newest)
        place(id, start(p, flow_of_returned(tenant)))
      else
        local ms, tail = string.match(value, '^(%d+) (.*)$')
        local a, s, d = count(call('HGET', META, id))
        if letter == 'd' then d = d + 1 else a = a + 1 end
        metas[#metas + 1] = id
        metas[#metas + 1] = a .. ',' .. s .. ',' .. d .. tail
        take_dirty_bit(id, any_aside)
        place(id, now + tonumber(ms))
      end
      note(NAME[letter], id)
    end
  end
end

local dead = call('ZRANGE', ACTIVE, '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)
if #dead > 0 then
  many('ZREM', ACTIVE, dead)
  for _, id in ipairs(dead) do
    over[#over + 1] = id
    dels[#dels + 1] = TOKEN .. id
    local meta = call('HGET', META, id)
    local a, s, d, tail = count(meta)
    s = s + 1
    local counted = a .. ',' .. s .. ',' .. d .. tail
    local holder = call('GET', TOKEN .. id)
    if holder and call('HGET', STOP, id) == holder then
      end_unseen(id, 'x', 'cancelled', call('GET', JOB .. id), counted, 'cancelled', 'it was asked to stop')
      note('cancelled', id)
    elseif s > max_stalls then
      local newer = take_dirty_bit(id, true)
      if newer then -- as at any other end: the edit runs, as a job of its own
        place(id, start(whose(newer)))
        ended[#ended + 1] = id
        note('rerun', id)
      else
        end_unseen(id, 'f', 'stalled_too_often', call('GET', JOB .. id), counted, 'stalled_too_often',
          'its worker was lost ' .. s .. ' times')
        note('failed', id)
      end
    else
      metas[#metas + 1] = id
      metas[#metas + 1] = counted
      local newest = take_dirty_bit(id, true) or call('GETRANGE', JOB .. id, 0, 120)
      local p, tenant = whose(newest)
      place(id, start(p, flow_of_returned(tenant)))
      note('stalled', id)
    end
  end
end

if #over > 0 then
  save_ends()
  if any_aside then
    call('HDEL', STOP, unpack(over))
    call('HDEL', PROGRESS, unpack(over))
  end
  if #ended > 0 and (any_aside or #dead > 0) then call('HDEL', META, unpack(ended)) end
  if #metas > 0 then many('HSET', META, metas) end
  if #places > 0 then many('ZADD', Q, places) end
  for letter in pairs(touched) do
    if letter == 'f' then trim('f', keep_failed, keep_failed_ms, keep_bytes) else trim(letter, keep_done, keep_done_ms, keep_bytes) end
  end
end

local due = call('ZRANGE', Q, '0', now, 'BYSCORE', 'LIMIT', 0, 200)
if #due > 0 then
  places = {}
  for _, id in ipairs(due) do
    call('PERSIST', JOB .. id) -- a stock producer's payload has a TTL
    local p, tenant = whose(call('GETRANGE', JOB .. id, 0, 120))
    place(id, start(p, flow_of_returned(tenant)))
  end
  many('ZADD', Q, places)
end
save_flows()

local ready = call('ZCOUNT', Q, '-inf', '(0')
local room, window_ms = 0, nil
if ready > 0 then room, window_ms = room_now(cfg) end
local n = math.min(want, room, ready)
local answer = { 0, -1, now, table.concat(stale, ',') }
if n > 0 then
  local since = tonumber(cfg[5] or 0)
  local turns = math.floor((since + n) / 20)
  local background = {}
  if turns > 0 then
    background = call('ZRANGE', Q, BAND[2], '(0', 'BYSCORE', 'LIMIT', 0, turns)
    if #background > 0 then call('ZREM', Q, unpack(background)) end
  end
  local first = n > #background and call('ZPOPMIN', Q, n - #background) or {}
  local ids, taken, last = {}, 0, {}
  local function take_background()
    taken = taken + 1
    since = 0
    ids[#ids + 1] = background[taken]
  end
  for i = 1, #first, 2 do
    if since >= 19 and taken < #background then take_background() end
    local score = tonumber(first[i + 1])
    local p = score >= BAND[2] and 2 or score >= BAND[1] and 1 or 0
    last[p] = score
    ids[#ids + 1] = first[i]
    since = p == 2 and 0 or since + 1
  end
  while taken < #background do take_background() end
  if since > 0 and call('ZCOUNT', Q, BAND[2], '(0') == 0 then since = 0 end
  if since ~= tonumber(cfg[5] or 0) then call('HSET', CFG, 'bg', since) end

  -- Background taken out of turn leaves the clock alone, or what is older in its band would count as gone.
  if not clock then load_clock() end
  for p, score in pairs(last) do
    call('HSET', VT, 'v' .. p, math.max(clock[p], score))
    call('ZREMRANGEBYSCORE', TAGS, BAND[p], math.max(clock[p], score))
  end
  local payloads, tokens, leases = {}, {}, {}
  for i, id in ipairs(ids) do
    payloads[i] = JOB .. id
    tokens[2 * i - 1] = TOKEN .. id
    tokens[2 * i] = token
    leases[2 * i - 1] = now + lease
    leases[2 * i] = id
  end
  payloads = call('MGET', unpack(payloads))
  local with_meta = call('EXISTS', META) == 1 and call('HMGET', META, unpack(ids))
  many('MSET', nil, tokens)
  many('ZADD', ACTIVE, leases)
  for i, id in ipairs(ids) do
    answer[3 * i + 2] = id
    answer[3 * i + 3] = payloads[i] or ''
    answer[3 * i + 4] = with_meta and with_meta[i] or ''
  end
  if cfg[3] then
    local window = tonumber(cfg[4])
    local key = LIM .. math.floor(now / window)
    call('INCRBY', key, n)
    call('PEXPIRE', key, 2 * window)
    room, window_ms = room_now(cfg)
  else
    room = room - n
  end
  happened.started = ids
  ready = ready - n
end

local fields = {}
for event, ids in pairs(happened) do
  fields[#fields + 1] = event
  fields[#fields + 1] = table.concat(ids, ' ')
end
if #fields > 0 then call('XADD', EVENTS, 'MAXLEN', '~', 1000, '*', unpack(fields)) end
local over_now, failed_now = 0, happened.failed and #happened.failed or 0
for _, event in ipairs({ 'completed', 'skipped', 'cancelled', 'failed' }) do over_now = over_now + #(happened[event] or {}) end
if over_now > 0 then count_minute('o', over_now) end
if failed_now > 0 then count_minute('f', failed_now) end
if happened.delayed then count_minute('d', #happened.delayed) end

if ready > 0 and room > 0 then
  answer[1] = 1
  if call('LLEN', WAKE) == 0 then call('LPUSH', WAKE, '1') end
end
local ms = ms_to_next()
if ready > 0 and window_ms then ms = math.min(ms or window_ms, window_ms) end
if ms then answer[2] = ms end
return answer
