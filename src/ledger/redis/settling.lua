-- ARGV: the lease; its length, the request's digest, head, transaction or '', keep_until. Renews, and records durably that the payment is
-- about to be settled for its intent, and for the lease's purchase.
if not is_holder or consumed_at then return { 'lease lost' } end
local ends = whole(now + tonumber(ARGV[4]))
redis.call('HSET', payment, 'until', ends)
redis.call('ZADD', held, ends, id)
end_settling(intent, id)
redis.call('HSET', begun_key(id), 'intent', intent, 'request', ARGV[5], 'head', ARGV[6], 'tx_hash', ARGV[7])
redis.call('SET', begun_for_key(intent), id)
if purchase then
  redis.call('HSET', begun_key(id), 'purchase', purchase)
  redis.call('SET', begun_as_key(purchase), id)
end
redis.call('ZADD', begun_by_age_key(chain_of(id)), ARGV[8], id)
return { 'done' }
