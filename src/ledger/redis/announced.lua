-- ARGV: id of a payment whose sale was announced.
redis.call('HDEL', prefix .. 'unannounced_sales', ARGV[1])
redis.call('ZREM', prefix .. 'unannounced', ARGV[1])
return { 'done' }
