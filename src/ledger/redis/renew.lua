-- ARGV: the lease; its length.
if not is_holder or consumed_at then return { 'lease lost' } end
local ends = whole(now + tonumber(ARGV[4]))
redis.call('HSET', payment, 'until', ends)
redis.call('ZADD', held, ends, id)
return { 'done' }
