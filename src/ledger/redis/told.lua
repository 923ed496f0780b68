-- Tells sales in the order of a sorted set, each with its refund: those from a time until before another, so many, and more where
-- several have the very first time.
local answer = { 'sales' }

local function tell(id, values)
  answer[#answer + 1] = id
  for i = 1, #fields do answer[#answer + 1] = values(i) or '' end
  answer[#answer + 1] = redis.call('HGET', prefix .. 'refunds', id) or ''
end

local function of_set(set, since, before, most, tell_sale)
  local first = redis.call('ZCOUNT', set, since, since)
  for _, id in ipairs(redis.call('ZRANGE', set, since, '(' .. before, 'BYSCORE', 'LIMIT', 0, most + first)) do
    tell_sale(id)
  end
end

-- Of a hash that has each sale as JSON.
local function written_in(hash)
  return function(id)
    local sale = redis.call('HGET', hash, id)
    if sale then
      sale = cjson.decode(sale)
      tell(id, function(i) return sale[fields[i]] end)
    end
  end
end
