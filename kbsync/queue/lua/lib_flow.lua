-- Start-time fair queueing (QU-15). A flow is one priority and tenant; what comes back (delayed, retried, stalled,
-- put back) is a flow of its own, or it would wait behind its tenant's backlog. Each flow's jobs start one TURN apart.
-- A newcomer starts just after the band's clock; e<band> keeps newcomers in the order they came, never past one turn.
local BAND = { [0] = -9e15, [1] = -6e15, [2] = -3e15 }
local TURN = 1000

local BAND_TEXT = { [0] = score_text(BAND[0]), [1] = score_text(BAND[1]), [2] = score_text(BAND[2]) }
local function band_of(score) return score >= BAND[2] and 2 or score >= BAND[1] and 1 or 0 end

local clock, counter, counter_moved = nil, nil, {}
local next_start, moved = {}, {}

local function load_clock()
  local v = call('HMGET', VT, 'v0', 'v1', 'v2', 'e0', 'e1', 'e2')
  clock, counter = {}, {}
  for p = 0, 2 do
    clock[p] = tonumber(v[p + 1] or BAND[p])
    counter[p] = tonumber(v[p + 4] or BAND[p])
  end
end

local function know_flows(tags)
  if #tags == 0 then return end
  local scores = call('ZMSCORE', TAGS, unpack(tags))
  for i, tag in ipairs(tags) do next_start[tag] = tonumber(scores[i] or BAND[0]) end
end

-- The start of a flow's next job, and the flow moves on by `n` of them (one, if not said).
local function start(p, flow, n)
  if not clock then load_clock() end
  local tag = p .. flow
  local at = next_start[tag]
  if not at then at = tonumber(call('ZSCORE', TAGS, tag) or BAND[0]) end
  if at <= clock[p] then
    at = math.min(math.max(clock[p], counter[p]) + 1, clock[p] + TURN)
    counter[p] = at
    counter_moved[p] = true
  end
  next_start[tag] = at + (n or 1) * TURN
  moved[tag] = true
  return at
end

local function save_flows()
  local tags, fields = {}, {}
  for tag in pairs(moved) do
    tags[#tags + 1] = score_text(next_start[tag])
    tags[#tags + 1] = tag
  end
  many('ZADD', TAGS, tags)
  for p in pairs(counter_moved) do
    fields[#fields + 1] = 'e' .. p
    fields[#fields + 1] = score_text(counter[p])
  end
  if #fields > 0 then call('HSET', VT, unpack(fields)) end
end

-- Priority and tenant stand first in a payload that kbsync wrote; any other producer's job is normal and `default`.
local function whose(payload)
  local p, tenant = string.match(payload or '', '^%[([012]),"([^"]*)"')
  return tonumber(p or 1), tenant or 'default'
end

local function flow_of_returned(tenant) return tenant .. '\0r' end
