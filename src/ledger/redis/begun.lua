-- ARGV: intent. The settlement that was begun for this intent, and of which payment.
if not schema then return { 'not begun' } end
local id = redis.call('GET', begun_for_key(ARGV[1]))
if not id then return { 'no' } end
return { 'yes', id, unpack(redis.call('HMGET', begun_key(id), 'request', 'head', 'tx_hash')) }
