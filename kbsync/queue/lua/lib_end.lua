-- Records of ended jobs: an index entry (id -> bytes) in the state's stream and the record under arq:result:<id>.
local sets, dels, grown = {}, {}, {}

-- `tail` is the record from its third element on.
local function keep_record(letter, id, tail)
  local size = #tail + 36
  local at = call('XADD', IDX[letter], '*', id, size)
  sets[#sets + 1] = RESULT .. id
  sets[#sets + 1] = '["' .. letter .. '","' .. at .. '"' .. tail
  grown[letter] = (grown[letter] or 0) + size
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

-- A kept record of this id goes away: from Redis, from its index and from the byte count.
local function drop_record(id)
  local letter, at = string.match(call('GETRANGE', RESULT .. id, 0, 63), '^%["([csxf])","(%d+%-%d+)"')
  if letter then
    local entry = call('XRANGE', IDX[letter], at, at)[1]
    if entry then
      call('XDEL', IDX[letter], at)
      call('HINCRBY', BYTES, letter, -tonumber(entry[2][2]))
    end
  end
  call('DEL', RESULT .. id)
  return letter, at
end

local function save_ends()
  many('DEL', nil, dels)
  many('MSET', nil, sets)
  for letter, by in pairs(grown) do call('HINCRBY', BYTES, letter, by) end
  if #owed > 0 then
    many('RPUSH', OWED, owed)
    call('LTRIM', OWED, -100000, -1)
  end
end

-- Oldest first, while over count, age or bytes; at most 400 a call. Answers whether it may have left some.
local function trim(letter, keep_count, keep_ms, keep_bytes)
  local key = IDX[letter]
  local over = call('XLEN', key) - keep_count
  local bytes = tonumber(call('HGET', BYTES, letter) or 0)
  local horizon = now - keep_ms
  local gone, keys, freed, seen = nil, {}, 0, 0
  local function look(from, count)
    local entries = call('XRANGE', key, from, '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      local size = tonumber(entry[2][2])
      if not (seen < over or bytes - freed > keep_bytes or tonumber(string.match(entry[1], '^%d+')) <= horizon) then
        return false
      end
      seen = seen + 1
      gone = entry[1]
      keys[seen] = RESULT .. entry[2][1]
      freed = freed + size
    end
    return #entries == count
  end
  -- One more than is over is read, to see its age: mostly it stays, and no entry is read that does.
  local page = bytes > keep_bytes and 400 or math.min(math.max(over, 0) + 1, 400)
  local more = look('-', page)
  if more and page < 400 then more = look('(' .. gone, 400 - page) end
  if gone then
    local ms, number = string.match(gone, '^(%d+)%-(%d+)$') -- they are the oldest: one cut takes them all
    call('XTRIM', key, 'MINID', ms .. '-' .. number + 1)
    many('DEL', nil, keys)
    call('HINCRBY', BYTES, letter, -freed)
  end
  return more
end
