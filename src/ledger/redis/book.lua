-- Writes a sale down for good, as it is on record now.
local function book(id)
  local sale = record(id)
  redis.call('HSET', prefix .. 'book', id, cjson.encode(sale))
  redis.call('ZADD', prefix .. 'booked', sale.consumed_at, id)
end
