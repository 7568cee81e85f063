-- beat: renews leases that still hold (QU-08).
-- KEYS   the queue's keys
-- ARGV   lease ms, then (id, token)*
-- returns  the ids whose lease went to another run or away
-- keeps  A lease is renewed by the holder of its token only. The ZREM of nothing lets the renewal through when
--        Redis's memory is full: a renewal takes no memory, and a refused one would stall healthy jobs.
-- include: lib_keys
call('ZREM', ACTIVE, '')
local tokens, lost, renewed = {}, {}, {}
for i = 2, #ARGV, 2 do tokens[#tokens + 1] = TOKEN .. ARGV[i] end
if #tokens == 0 then return lost end
tokens = call('MGET', unpack(tokens))
for i = 1, #tokens do
  local id, token = ARGV[2 * i], ARGV[2 * i + 1]
  if tokens[i] == token then
    renewed[#renewed + 1] = now + ARGV[1]
    renewed[#renewed + 1] = id
  else
    lost[#lost + 1] = id
  end
end
if #renewed > 0 then call('ZADD', ACTIVE, 'XX', unpack(renewed)) end
return lost
