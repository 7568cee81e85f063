-- settle_tags: after a bulk removal, flows stand right behind what is left of them (QU-15).
-- KEYS   the queue's keys
-- ARGV   (flow, start of its next job when the removal began, score of its last remaining job or empty)*
-- returns  how many moved
-- keeps  A flow that was enqueued to meanwhile is left alone: its order must not change.
-- include: lib_keys
local moved_count = 0
for i = 1, #ARGV, 3 do
  local at = tonumber(call('ZSCORE', TAGS, ARGV[i]) or nil)
  if at and at <= tonumber(ARGV[i + 1]) then
    local last = tonumber(ARGV[i + 2])
    if not last then
      call('ZREM', TAGS, ARGV[i])
      moved_count = moved_count + 1
    elseif last + 1000 < at then
      call('ZADD', TAGS, last + 1000, ARGV[i])
      moved_count = moved_count + 1
    end
  end
end
return moved_count
