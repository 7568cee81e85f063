-- Records of ended jobs: the record under arq:result:<id>, and in the state's index stream one entry for all that ended
-- in one step, id -> bytes. A record that is replaced or removed leaves its id in the entry: Q:gone counts what is left.
local sets, dels, ending, texts = {}, {}, {}, {}

-- `tail` is the record from its third element on. `save_ends` writes it.
local function keep_record(letter, id, tail)
  local group = ending[letter]
  if not group then
    group = { pairs = {}, tails = {}, bytes = 0 }
    ending[letter] = group
  end
  local tails, size = group.tails, #tail + 36
  local at = #tails + 1
  tails[at] = tail
  texts[size] = texts[size] or tostring(size)
  group.pairs[2 * at - 1], group.pairs[2 * at] = id, texts[size]
  group.bytes = group.bytes + size
end

-- For ends that no runner saw, made here from the payload alone: pattern matching, as cjson would change numbers.
local function unseen_tail(payload, meta, kind_of_error, message)
  local p, tenant, kind, enqueued = string.match(payload or '', '^%[([012]),"([^"]*)","([^"\\]*)",(%d+)[,%]]')
  local a, s, d, tail = string.match(meta or '0,0,0', '^(%d+),(%d+),(%d+)(.*)$')
  if tail == '' then tail = 'null' end
  return table.concat({
    ',', a, ',"', kind or '', '",', enqueued or now, ',', now, ',', now, ',', p or 1, ',"', tenant or 'default',
    '",{"type":"', kind_of_error, '","message":"', message, '"},', kind and payload or 'null',
    ',[', a, ',', s, ',', d, ',', tail, ']]',
  })
end

local owed = {}
-- microseconds|length of id|reason|id payload: no separator can be forged by an id or a payload.
local function owe(id, reason, payload)
  owed[#owed + 1] = table.concat({ time[1], string.format('%06d', time[2]), '|', #id, '|', reason, '|', id, payload or '' })
end

local function head_of(letter, at) return '["' .. letter .. '","' .. at .. '"' end

local lefts, dropped = {}, {}

-- How many jobs of an index entry are kept; nil when the entry is not there.
local function left_in(letter, at)
  local left = tonumber(call('HGET', GONE, letter .. at) or nil)
  local entry = not left and call('XRANGE', IDX[letter], at, at)[1]
  if not entry then return left end
  local oldest, trimmed = string.match(call('HGET', BYTES, 'o' .. letter) or '', '^(.*)|(%d+)$')
  return #entry[2] / 2 - (oldest == at and trimmed or 0)
end

-- The kept record of this id goes away, if there is one. `save_drops` takes it out of the index and the counts.
local function drop_record(id)
  local key = RESULT .. id
  local letter, at = string.match(call('GETRANGE', key, 0, 63), '^%["([csxf])","(%d+%-%d+)"')
  if letter then
    lefts[letter] = lefts[letter] or {}
    local left = lefts[letter][at] or left_in(letter, at)
    if left then
      lefts[letter][at] = left - 1
      local sum = dropped[letter] or { jobs = 0, bytes = 0 }
      dropped[letter] = sum
      sum.jobs = sum.jobs + 1
      sum.bytes = sum.bytes + call('STRLEN', key) - #head_of(letter, at) + 36
    end
  end
  call('DEL', key)
end

local function save_drops()
  for letter, entries in pairs(lefts) do
    for at, left in pairs(entries) do
      if left > 0 then
        call('HSET', GONE, letter .. at, left)
      else
        call('XDEL', IDX[letter], at)
        call('HDEL', GONE, letter .. at)
      end
    end
  end
  for letter, sum in pairs(dropped) do
    call('HINCRBY', BYTES, letter, -sum.bytes)
    call('HINCRBY', BYTES, 'n' .. letter, -sum.jobs)
  end
end

local function save_ends()
  many('DEL', nil, dels)
  for letter, group in pairs(ending) do
    local ids = group.pairs
    local head = head_of(letter, call('XADD', IDX[letter], '*', unpack(ids)))
    for i, tail in ipairs(group.tails) do
      sets[#sets + 1] = RESULT .. ids[2 * i - 1]
      sets[#sets + 1] = head .. tail
    end
    call('HINCRBY', BYTES, letter, group.bytes)
    call('HINCRBY', BYTES, 'n' .. letter, #group.tails)
  end
  many('MSET', nil, sets)
  if #owed > 0 then
    many('RPUSH', OWED, owed)
    call('LTRIM', OWED, -100000, -1)
  end
end
