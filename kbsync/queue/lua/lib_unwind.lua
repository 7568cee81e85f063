-- A waiting job that leaves unclaimed gives its turn back when it was its flow's last, or the flow would wait behind
-- turns that it never used.
local function give_turn_back(p, tenant, score)
  for _, flow in ipairs({ p .. tenant, p .. tenant .. '\0r' }) do
    local at = tonumber(call('ZSCORE', TAGS, flow) or nil)
    if at and at == score + 1000 then call('ZADD', TAGS, score, flow) end
  end
end
