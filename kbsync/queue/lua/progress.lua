-- progress: stores what runs report, of those that still hold their lease (QU-24).
-- KEYS   the queue's keys
-- ARGV   (id, token, json)*
-- returns  how many were stored
-- keeps  Another run's progress is never overwritten by a run that lost its lease.
-- include: lib_keys
local stored = 0
for i = 1, #ARGV, 3 do
  if call('GET', TOKEN .. ARGV[i]) == ARGV[i + 1] then
    call('HSET', PROGRESS, ARGV[i], ARGV[i + 2])
    stored = stored + 1
  end
end
return stored
