-- Retention: kept records leave oldest first, while there are too many, or they are too old or too large (QU-17).
local AT_ONCE = 400

-- At most 400 a call. Answers whether it may have left some.
local function trim(letter, keep_count, keep_ms, keep_bytes)
  local key = IDX[letter]
  local known = call('HMGET', BYTES, letter, 'n' .. letter, 'o' .. letter)
  local bytes, kept = tonumber(known[1] or 0), tonumber(known[2] or 0)
  local oldest, trimmed = string.match(known[3] or '', '^(.*)|(%d+)$')
  local over, horizon = kept - keep_count, now - keep_ms
  local keys, freed, cut, part, any_gone = {}, 0, nil, nil, nil

  -- Takes an entry's jobs, while they must go. Answers whether the whole entry went.
  local function take(entry)
    local at, pairs = entry[1], entry[2]
    local aged = tonumber(string.match(at, '^%d+')) <= horizon
    if any_gone == nil then any_gone = call('EXISTS', GONE) == 1 end
    local left = any_gone and tonumber(call('HGET', GONE, letter .. at) or nil)
    local head, taken = head_of(letter, at), #keys
    for i = at == oldest and 2 * trimmed + 1 or 1, #pairs, 2 do
      local result = RESULT .. pairs[i]
      if not left or string.sub(call('GETRANGE', result, 0, 63), 1, #head) == head then
        if #keys >= AT_ONCE or not (aged or #keys < over or bytes - freed > keep_bytes) then
          part = at .. '|' .. (i - 1) / 2
          if left then call('HSET', GONE, letter .. at, left - (#keys - taken)) end
          return false
        end
        keys[#keys + 1] = result
        freed = freed + pairs[i + 1]
      end
    end
    if left then call('HDEL', GONE, letter .. at) end
    cut = at
    return true
  end

  local from, whole = '-', true
  while whole and #keys < AT_ONCE and (#keys < over or bytes - freed > keep_bytes) do
    -- As many entries as hold what is over, if all are of one size.
    local count = over > 0 and math.ceil((over - #keys) * call('XLEN', key) / kept) or 1
    local entries = call('XRANGE', key, from, '+', 'COUNT', math.max(1, math.min(count, AT_ONCE)))
    whole = #entries > 0
    for _, entry in ipairs(entries) do
      whole = take(entry)
      if not whole then break end
      from = '(' .. entry[1]
    end
  end
  while whole and #keys < AT_ONCE and horizon > 0 do
    local entry = call('XRANGE', key, from, score_text(horizon), 'COUNT', 1)[1]
    whole = entry and take(entry)
    if whole then from = '(' .. entry[1] end
  end

  if cut then
    local ms, number = string.match(cut, '^(%d+)%-(%d+)$') -- they are the oldest: one cut takes them all
    call('XTRIM', key, 'MINID', ms .. '-' .. number + 1)
  end
  if part then call('HSET', BYTES, 'o' .. letter, part) elseif cut and oldest then call('HDEL', BYTES, 'o' .. letter) end
  if #keys > 0 then
    many('DEL', nil, keys)
    call('HINCRBY', BYTES, letter, -freed)
    call('HINCRBY', BYTES, 'n' .. letter, -#keys)
  end
  return #keys >= AT_ONCE
end
