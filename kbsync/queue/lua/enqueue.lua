-- enqueue: takes requests into the queue, all or nothing (QU-02, QU-03, QU-04, QU-30).
-- KEYS   the queue's keys (lib_keys)
-- ARGV   (options, n, (id, payload) n times)*; options = priority|delay ms|mode|tenant|index id
--        mode: - plain, r rerun if active, k keep a finished job, b both, f only if the kept record has that index id
-- returns  one letter a request: c created, q already queued, a active and will run again, r replaced,
--          d already done, n not done (mode f: the record is another one or gone)
-- keeps  An id has at most one payload and stands in exactly one of Q, active and the indexes. The first write is
--        one that Redis refuses when its memory is full, so that a refusal leaves nothing half written.
-- include: lib_keys lib_flow lib_end lib_rates
local last = #ARGV
local jobs, records = {}, {}
local at, number = 1, 0
while at < last do
  local upto = at + 2 * ARGV[at + 1]
  for i = at + 2, upto, 2 do
    number = number + 1
    jobs[number], records[number] = JOB .. ARGV[i], RESULT .. ARGV[i]
  end
  at = upto + 2
end
local any_live = call('EXISTS', unpack(jobs)) > 0
local any_kept = call('EXISTS', unpack(records)) > 0

local again, replaced = {}, {}

local function letter_of(id, at_number, mode, index_id, payload)
  if any_live and call('EXISTS', jobs[at_number]) == 1 then
    if not ((mode == 'r' or mode == 'b') and call('EXISTS', TOKEN .. id) == 1) then return 'q' end
    again[#again + 1] = id
    again[#again + 1] = payload
    return 'a'
  end
  if mode == 'f' then
    local kept = string.match(call('GETRANGE', records[at_number], 0, 63), '^%["[csxf]","(%d+%-%d+)"')
    if kept ~= index_id then return 'n' end
  end
  if any_kept and call('EXISTS', records[at_number]) == 1 then
    if mode == 'k' or mode == 'b' then return 'd' end
    replaced[#replaced + 1] = id
    return 'r'
  end
  return 'c'
end

local letters, seen, ids, payloads, groups, tags = {}, {}, {}, {}, {}, {}
at, number = 1, 0
while at < last do
  local p, delay, mode, tenant, index_id = string.match(ARGV[at], '^(%d)|(%d+)|(.)|([^|]*)|?(.*)$')
  local upto, first = at + 2 * ARGV[at + 1], #ids + 1
  local look = any_live or any_kept or mode == 'f'
  for i = at + 2, upto, 2 do
    local id, letter = ARGV[i], 'c'
    number = number + 1
    if seen[id] then
      letter = 'q'
    elseif look then
      letter = letter_of(id, number, mode, index_id, ARGV[i + 1])
    end
    if letter == 'c' or letter == 'r' then
      seen[id] = true
      ids[#ids + 1] = id
      payloads[#payloads + 1] = jobs[number]
      payloads[#payloads + 1] = ARGV[i + 1]
    end
    letters[number] = letter
  end
  if first <= #ids then
    groups[#groups + 1] = { p = tonumber(p), tenant = tenant, delay = tonumber(delay), first = first, last = #ids }
    if delay == '0' then tags[#tags + 1] = p .. tenant end
  end
  at = upto + 2
end

if #again > 0 then call('HSET', AGAIN, unpack(again)) end
if #ids > 0 then
  local ready, soonest = false, nil
  know_flows(tags)
  many('MSET', nil, payloads)
  for _, id in ipairs(replaced) do drop_record(id) end
  save_drops()
  local places = payloads -- of the same length: a score and an id each
  for _, group in ipairs(groups) do
    local score, turn = now + group.delay, 0
    if group.delay > 0 then
      soonest = math.min(soonest or group.delay, group.delay)
    else
      score, turn = start(group.p, group.tenant, group.last - group.first + 1), TURN
      ready = true
    end
    local text = turn == 0 and score_text(score)
    for i = group.first, group.last do
      places[2 * i - 1] = text or score_text(score)
      places[2 * i] = ids[i]
      score = score + turn
    end
  end
  many('ZADD', Q, places)
  save_flows()
  local shown = table.concat(ids, ' ', 1, math.min(#ids, 20))
  if #ids > 20 then shown = shown .. ' +' .. #ids - 20 end
  call('XADD', EVENTS, 'MAXLEN', '~', 1000, '*', 'enqueued', shown)
  count_minute('i', #ids)
  -- A later due time is found by the workers' peek in time. A paused queue pushes no token: workers would only spin.
  if (ready or soonest < 3000) and call('LLEN', WAKE) == 0 and not call('HGET', CFG, 'paused') then
    call('LPUSH', WAKE, '1')
  end
end
return table.concat(letters)
