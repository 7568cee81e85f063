-- exchange: finish what ended, reclaim what lost its holder, promote what is due, claim what is ready: one atomic step
-- (QU-05 to QU-09, QU-11, QU-13 to QU-17, QU-29).
-- KEYS   the queue's keys (lib_keys)
-- ARGV   1 token of what is claimed here, 2 lease ms, 3 wanted, 4 max stalls,
--        5 keep done count, 6 keep done ms, 7 keep failed count, 8 keep failed ms, 9 keep bytes,
--        then (letter, token, n, (id, value) n times)*: what ended the same way under the same token. Letter and value:
--          c completed, s skipped, f failed, x cancelled, p payload refused, t timed out: value = record from its third element
--          d delayed (no attempt), r a failed attempt's backoff: value = ms, a space, the JSON tail of the job's meta
--          b back untouched: value empty
-- returns  {1 if more is ready and allowed, ms to the next thing to do or -1, now ms, numbers of stale finishes joined
--          by commas, ids claimed, their payloads, their metas (none when no job has one)}
-- keeps  Only the holder of the token changes an active job. Nothing enters active past pause, limiter and max_active.
--        The first write is one that Redis takes with its memory full, so that work can end and make room.
-- include: lib_keys lib_flow lib_end lib_trim lib_room lib_rates lib_claim
local token, lease, want, max_stalls = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local keep_done, keep_done_ms, keep_failed, keep_failed_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local keep_bytes = tonumber(ARGV[9])
local FIRST_GROUP = 10
local cfg = call('HMGET', CFG, 'paused', 'max_active', 'limit', 'window', 'bg')
local stale, happened, touched = {}, {}, {}
local over, places, ended, metas = {}, {}, {}, {}
local STATE = { c = 'c', s = 's', x = 'x', f = 'f', p = 'f', t = 'f' }
local NAME = { c = 'completed', s = 'skipped', x = 'cancelled', f = 'failed', p = 'failed', t = 'failed', d = 'delayed', r = 'retried', b = 'returned' }
local UNSEEN = { p = 'payload_refused', t = 'timed_out', x = 'cancelled' }

local function noted(event)
  local ids = happened[event]
  if not ids then
    ids = {}
    happened[event] = ids
  end
  return ids
end

local function note(event, id)
  local ids = noted(event)
  ids[#ids + 1] = id
end

local function place(id, score)
  places[#places + 1] = score
  places[#places + 1] = id
end

local function end_seen(id, letter, value)
  keep_record(letter, id, value)
  touched[letter] = true
  dels[#dels + 1] = JOB .. id
  ended[#ended + 1] = id
end

local function end_unseen(id, letter, reason, payload, meta, kind_of_error, message)
  end_seen(id, letter, unseen_tail(payload, meta, kind_of_error, message))
  owe(id, reason, payload)
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

local function rerun(id, newer)
  place(id, start(whose(newer)))
  ended[#ended + 1] = id
  note('rerun', id)
end

local function put_back(id, newer)
  local p, tenant = whose(newer or call('GETRANGE', JOB .. id, 0, 120))
  place(id, start(p, flow_of_returned(tenant)))
end

local any_aside = call('EXISTS', AGAIN, STOP, META, PROGRESS) > 0

-- The end of a run whose holder's token stood: with something aside, or one that is no plain end.
local function finish(id, letter, value, holder)
  local newer = STATE[letter] and take_dirty_bit(id, any_aside)
  if newer then
    rerun(id, newer)
    letter = nil
  elseif STATE[letter] then
    if UNSEEN[letter] then owe(id, UNSEEN[letter], call('GET', JOB .. id)) end
    end_seen(id, STATE[letter], value)
  elseif any_aside and call('HGET', STOP, id) == holder then
    end_unseen(id, 'x', 'cancelled', call('GET', JOB .. id), call('HGET', META, id), 'cancelled', 'it was asked to stop')
    letter = 'x'
  elseif letter == 'b' then
    put_back(id, take_dirty_bit(id, any_aside))
  else
    local ms, tail = string.match(value, '^(%d+) (.*)$')
    local a, s, d = count(call('HGET', META, id))
    if letter == 'd' then d = d + 1 else a = a + 1 end
    metas[#metas + 1] = id
    metas[#metas + 1] = a .. ',' .. s .. ',' .. d .. tail
    take_dirty_bit(id, any_aside)
    place(id, now + tonumber(ms))
  end
  if letter then note(NAME[letter], id) end
end

if ARGV[FIRST_GROUP] then
  local holders, last = {}, #ARGV
  local at = FIRST_GROUP
  while at < last do
    local upto = at + 1 + 2 * ARGV[at + 2]
    for i = at + 3, upto, 2 do holders[#holders + 1] = TOKEN .. ARGV[i] end
    at = upto + 2
  end
  holders = call('MGET', unpack(holders))
  call('ZREM', ACTIVE, '') -- of nothing: what follows is let through with Redis's memory full
  local number = 0
  at = FIRST_GROUP
  while at < last do
    local letter, holder, upto = ARGV[at], ARGV[at + 1], at + 1 + 2 * ARGV[at + 2]
    local plain = not any_aside and STATE[letter] and not UNSEEN[letter]
    local ids = plain and noted(NAME[letter])
    for i = at + 3, upto, 2 do
      local id = ARGV[i]
      number = number + 1
      if holders[number] ~= holder then
        stale[#stale + 1] = number
      else
        over[#over + 1] = id
        dels[#dels + 1] = TOKEN .. id
        if plain then
          end_seen(id, letter, ARGV[i + 1])
          ids[#ids + 1] = id
        else
          finish(id, letter, ARGV[i + 1], holder)
        end
      end
    end
    at = upto + 2
  end
  if #over > 0 then call('ZREM', ACTIVE, unpack(over)) end
end

local dead = call('ZRANGE', ACTIVE, '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)
if #dead > 0 then
  many('ZREM', ACTIVE, dead)
  for _, id in ipairs(dead) do
    over[#over + 1] = id
    dels[#dels + 1] = TOKEN .. id
    local a, s, d, tail = count(call('HGET', META, id))
    s = s + 1
    local counted = a .. ',' .. s .. ',' .. d .. tail
    local holder = call('GET', TOKEN .. id)
    if holder and call('HGET', STOP, id) == holder then
      end_unseen(id, 'x', 'cancelled', call('GET', JOB .. id), counted, 'cancelled', 'it was asked to stop')
      note('cancelled', id)
    elseif s > max_stalls then
      local newer = take_dirty_bit(id, true)
      if newer then -- as at any other end: the edit runs, as a job of its own
        rerun(id, newer)
      else
        end_unseen(id, 'f', 'stalled_too_often', call('GET', JOB .. id), counted, 'stalled_too_often',
          'its worker was lost ' .. s .. ' times')
        note('failed', id)
      end
    else
      metas[#metas + 1] = id
      metas[#metas + 1] = counted
      put_back(id, take_dirty_bit(id, true))
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
    put_back(id)
  end
  many('ZADD', Q, places)
end
save_flows()

local ready = call('ZCOUNT', Q, '-inf', '(0')
local room, window_ms = 0, nil
if ready > 0 then room, window_ms = room_now(cfg) end
local n = math.min(want, room, ready)
local answer = { 0, -1, now, table.concat(stale, ','), {}, {}, {} }
if n > 0 then
  local ids = take_ready(n, cfg[5])
  answer[5], answer[6], answer[7] = ids, hold(ids, token, lease)
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
  if #ids > 0 then
    fields[#fields + 1] = event
    fields[#fields + 1] = table.concat(ids, ' ')
  end
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
