local expired = 0

-- Ends a lease that ran out.
local function expire(id)
  local holder, ended, purchase = unpack(redis.call('HMGET', payment_key(id), 'intent', 'until', 'purchase'))
  redis.call('ZREM', held, id)
  if not ended then return end
  redis.call('DEL', payment_key(id), intent_key(holder))
  if purchase then redis.call('DEL', purchase_key(purchase)) end
  redis.call('HINCRBY', ledger, 'expired', 1)
  expired = expired + 1
end
