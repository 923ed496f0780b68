-- ARGV: since, until, most. Sales from that time until before the other, in the order of the sorted sets: those that are known
-- and those that are booked, so many of each, and more where several have the very first time. Each with its refund.
local since, before, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fields = { 'resource', 'chain_id', 'tx_hash', 'log_position', 'payer', 'recipient', 'token', 'amount', 'block_number',
  'block_time', 'consumed_at' }
local answer = { 'sales' }

local function tell(id, values)
  answer[#answer + 1] = id
  for i = 1, #fields do answer[#answer + 1] = values(i) or '' end
  answer[#answer + 1] = redis.call('HGET', prefix .. 'refunds', id) or ''
end

local function of_set(set, tell_sale)
  local first = redis.call('ZCOUNT', set, since, since)
  for _, id in ipairs(redis.call('ZRANGE', set, since, '(' .. before, 'BYSCORE', 'LIMIT', 0, most + first)) do
    tell_sale(id)
  end
end

of_set(sold, function(id)
  local told = redis.call('HMGET', payment_key(id), unpack(fields))
  if told[#fields] then tell(id, function(i) return told[i] end) end
end)
of_set(prefix .. 'booked', function(id)
  local sale = redis.call('HGET', prefix .. 'book', id)
  if sale then
    sale = cjson.decode(sale)
    tell(id, function(i) return sale[fields[i]] end)
  end
end)
return answer
