-- enqueue: takes requests into the queue, all or nothing (QU-02, QU-03, QU-04, QU-30).
-- KEYS   the queue's keys (lib_keys)
-- ARGV   (id, payload, options)*; options = priority|delay ms|mode|tenant|index id
--        mode: - plain, r rerun if active, k keep a finished job, b both, f only if the kept record has that index id
-- returns  one letter a request: c created, q already queued, a active and will run again, r replaced,
--          d already done, n not done (mode f: the record is another one or gone)
-- keeps  An id has at most one payload and stands in exactly one of Q, active and the indexes. The first write is
--        one that Redis refuses when its memory is full, so that a refusal leaves nothing half written.
-- include: lib_keys lib_flow lib_end lib_rates
local n = #ARGV / 3
local jobs, records, letters, seen = {}, {}, {}, {}
for i = 1, n do
  local id = ARGV[3 * i - 2]
  jobs[i], records[i] = JOB .. id, RESULT .. id
end
local any_live = call('EXISTS', unpack(jobs)) > 0
local any_kept = call('EXISTS', unpack(records)) > 0

local fresh, tags, again, replaced = {}, {}, {}, {}
for i = 1, n do
  local id, mode = ARGV[3 * i - 2], string.match(ARGV[3 * i], '^%d|%d+|(.)')
  local letter = 'c'
  if seen[id] then
    letter = 'q'
  elseif any_live and call('EXISTS', jobs[i]) == 1 then
    letter = 'q'
    if (mode == 'r' or mode == 'b') and call('EXISTS', TOKEN .. id) == 1 then
      letter = 'a'
      again[#again + 1] = id
      again[#again + 1] = ARGV[3 * i - 1]
    end
  else
    if mode == 'f' then
      local at = string.match(call('GETRANGE', records[i], 0, 63), '^%["[csxf]","(%d+%-%d+)"')
      if at ~= string.match(ARGV[3 * i], '|(%d+%-%d+)$') then letter = 'n' end
    end
    if letter == 'c' and any_kept and call('EXISTS', records[i]) == 1 then
      letter = (mode == 'k' or mode == 'b') and 'd' or 'r'
    end
    if letter == 'c' or letter == 'r' then
      seen[id] = true
      fresh[#fresh + 1] = i
      if letter == 'r' then replaced[#replaced + 1] = id end
    end
  end
  letters[i] = letter
end

if #again > 0 then call('HSET', AGAIN, unpack(again)) end
if #fresh > 0 then
  local payloads, places, ids, known = {}, {}, {}, {}
  local ready, soonest = false, nil
  for _, i in ipairs(fresh) do
    local p, delay, tenant = string.match(ARGV[3 * i], '^(%d)|(%d+)|.|([^|]*)')
    if delay == '0' and not known[p .. tenant] then
      known[p .. tenant] = true
      tags[#tags + 1] = p .. tenant
    end
    payloads[#payloads + 1] = jobs[i]
    payloads[#payloads + 1] = ARGV[3 * i - 1]
    ids[#ids + 1] = ARGV[3 * i - 2]
  end
  know_flows(tags)
  many('MSET', nil, payloads)
  for _, id in ipairs(replaced) do drop_record(id) end
  for _, i in ipairs(fresh) do
    local p, delay, tenant = string.match(ARGV[3 * i], '^(%d)|(%d+)|.|([^|]*)')
    delay = tonumber(delay)
    if delay > 0 then
      places[#places + 1] = now + delay
      soonest = math.min(soonest or delay, delay)
    else
      places[#places + 1] = start(tonumber(p), tenant)
      ready = true
    end
    places[#places + 1] = ARGV[3 * i - 2]
  end
  many('ZADD', Q, places)
  save_flows()
  local shown = table.concat(ids, ' ', 1, math.min(#ids, 20))
  if #ids > 20 then shown = shown .. ' +' .. #ids - 20 end
  call('XADD', EVENTS, 'MAXLEN', '~', 1000, '*', 'enqueued', shown)
  count_minute('i', #fresh)
  -- A later due time is found by the workers' peek in time. A paused queue pushes no token: workers would only spin.
  if (ready or soonest < 3000) and call('LLEN', WAKE) == 0 and not call('HGET', CFG, 'paused') then
    call('LPUSH', WAKE, '1')
  end
end
return table.concat(letters)
