-- live: which ids are waiting, delayed or active in any queue of this Redis (QR-05).
-- KEYS   none: per-job keys are made from the ids
-- ARGV   ids
-- returns  one character an id, 1 or 0
-- keeps  Reads only.
local answer = {}
for i, id in ipairs(ARGV) do answer[i] = redis.call('EXISTS', 'arq:job:' .. id) end
return table.concat(answer)
