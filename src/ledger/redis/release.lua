-- ARGV: the lease.
if not is_holder or consumed_at then return { 'lease lost' } end
redis.call('DEL', payment, intent_key(intent))
redis.call('ZREM', held, id)
redis.call('HINCRBY', ledger, 'released', 1)
return { 'done' }
