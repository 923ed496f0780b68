-- ARGV: intent, id and fence of a lease. Tells whether it is still held; its clock is not asked.
if not schema then return { 'not begun' } end
local intent, id, payment = ARGV[1], ARGV[2], payment_key(ARGV[2])
local holder, holds, consumed_at, keep_until, purchase =
  unpack(redis.call('HMGET', payment, 'intent', 'fence', 'consumed_at', 'keep_until', 'purchase'))
local is_holder = holder == intent and holds == ARGV[3] and redis.call('GET', intent_key(intent)) == id
