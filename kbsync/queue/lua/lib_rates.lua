-- How many a minute: Q:rates, "<minute>:<letter>" -> jobs; i came in, o ended, f of these failed, d were delayed.
local function count_minute(letter, n)
  local minute = math.floor(now / 60000)
  if call('HINCRBY', RATES, minute .. ':' .. letter, n) == n and call('HLEN', RATES) > 400 then
    for _, field in ipairs(call('HKEYS', RATES)) do
      if tonumber(string.match(field, '^%d+')) < minute - 60 then call('HDEL', RATES, field) end
    end
  end
end
