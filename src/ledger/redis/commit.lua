-- ARGV: the lease; 'announce', or '' for a sale that waits for no announcement; then what the book says of the sale, names and values. Where the payment was settled since it was reserved, they
-- say also, last of all, until when it is kept.
local announce = table.remove(ARGV, 4) == 'announce'
if not is_holder then return { 'lease lost' } end
if consumed_at then
  -- Written once more: WAIT counts the replicas that have the connection's last write.
  redis.call('HSET', payment, 'consumed_at', consumed_at)
  return { 'done before' }
end
if ARGV[#ARGV - 1] == 'keep_until' then
  if tonumber(keep_until) > tonumber(ARGV[#ARGV]) then ARGV[#ARGV] = keep_until end
  keep_until = ARGV[#ARGV]
end
redis.call('HSET', payment, 'consumed_at', whole(now), unpack(ARGV, 4))
redis.call('HDEL', payment, 'until')
redis.call('ZREM', held, id)
redis.call('ZADD', kept_key(chain_of(id)), keep_until, id)
redis.call('ZADD', sold, whole(now), id)
end_settling(intent, id)
redis.call('HINCRBY', ledger, 'consumed', 1)
book(id)
if announce then
  redis.call('HSET', prefix .. 'unannounced_sales', id, cjson.encode(record(id)))
  redis.call('ZADD', prefix .. 'unannounced', whole(now), id)
end
return { 'done' }
