-- Writes a sale down for good, as it is on record now.
local function book(id)
  local fields = { 'resource', 'chain_id', 'tx_hash', 'log_position', 'payer', 'recipient', 'token', 'amount',
    'block_number', 'block_time', 'consumed_at' }
  local told, sale = redis.call('HMGET', payment_key(id), unpack(fields)), {}
  for i, field in ipairs(fields) do sale[field] = told[i] or '' end
  redis.call('HSET', prefix .. 'book', id, cjson.encode(sale))
  redis.call('ZADD', prefix .. 'booked', sale.consumed_at, id)
end
