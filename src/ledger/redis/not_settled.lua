-- ARGV: the lease. Removes the record that its payment is about to be settled.
if not is_holder or consumed_at then return { 'lease lost' } end
if redis.call('GET', begun_for_key(intent)) == id then end_settling(intent, id) end
return { 'done' }
