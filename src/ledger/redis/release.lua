-- ARGV: the lease.
if not is_holder or consumed_at then return { 'lease lost' } end
redis.call('DEL', payment, intent_key(intent))
if purchase then redis.call('DEL', purchase_key(purchase)) end
redis.call('ZREM', held, id)
redis.call('HINCRBY', ledger, 'released', 1)
return { 'done' }
