-- ARGV: intent, id. The settlement of this payment that was begun for this intent.
if not schema then return { 'not begun' } end
if redis.call('GET', begun_for_key(ARGV[1])) ~= ARGV[2] then return { 'no' } end
return { 'yes', unpack(redis.call('HMGET', begun_key(ARGV[2]), 'request', 'head', 'tx_hash')) }
