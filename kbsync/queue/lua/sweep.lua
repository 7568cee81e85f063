-- sweep: retention of queues where nothing ends (QU-17).
-- KEYS   the queue's keys
-- ARGV   keep done count, keep done ms, keep failed count, keep failed ms, keep bytes
-- returns  1 when another call may find more
-- keeps  Records leave oldest first, with their index entry and byte count.
-- include: lib_keys lib_end lib_trim
local more = 0
for _, letter in ipairs({ 'c', 's', 'x' }) do
  if trim(letter, tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5])) then more = 1 end
end
if trim('f', tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])) then more = 1 end
return more
