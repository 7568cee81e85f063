-- recover: what was claimed under tokens whose answer was lost with a connection (QU-20).
-- KEYS   the queue's keys
-- ARGV   lease ms, then tokens
-- returns  (id, token, payload, meta)* of active jobs held by these tokens, their leases renewed
-- keeps  Only what these tokens hold is answered.
-- include: lib_keys
local wanted, answer = {}, {}
for i = 2, #ARGV do wanted[ARGV[i]] = true end
local ids = call('ZRANGE', ACTIVE, 0, 9999)
for first = 1, #ids, 1000 do
  local keys = {}
  for i = first, math.min(first + 999, #ids) do keys[#keys + 1] = TOKEN .. ids[i] end
  local tokens = call('MGET', unpack(keys))
  for i = 1, #keys do
    local id = ids[first + i - 1]
    if tokens[i] and wanted[tokens[i]] then
      call('ZADD', ACTIVE, 'XX', now + ARGV[1], id)
      answer[#answer + 1] = id
      answer[#answer + 1] = tokens[i]
      answer[#answer + 1] = call('GET', JOB .. id) or ''
      answer[#answer + 1] = call('HGET', META, id) or ''
    end
  end
end
return answer
