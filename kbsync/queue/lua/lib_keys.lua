-- Names for the KEYS that every queue script gets (kbsync.queue.keys.QueueKeys.all), and Redis's clock (QU-23).
local Q, TAGS, VT, WAKE, EVENTS, META, AGAIN, ACTIVE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local CFG, BYTES, PROGRESS, STOP, OWED = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local IDX = { c = KEYS[14], s = KEYS[15], x = KEYS[16], f = KEYS[17] }
local LIM, OWING, WORKERS, RATES, GONE = KEYS[18], KEYS[19], KEYS[20], KEYS[21], KEYS[22]
local JOB, TOKEN, RESULT = 'arq:job:', 'arq:in-progress:', 'arq:result:'
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Lua's unpack fails beyond some 8,000 values.
local function many(command, key, values)
  for first = 1, #values, 4000 do
    local last = math.min(first + 3999, #values)
    if key then call(command, key, unpack(values, first, last)) else call(command, unpack(values, first, last)) end
  end
end

-- A whole number as an argument: exact (`..` keeps 14 digits) and cheaper than what Redis makes of a Lua number.
local function score_text(number) return string.format('%d', number) end
