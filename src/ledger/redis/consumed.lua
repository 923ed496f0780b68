-- ARGV: intent. Whether it bought its answer.
if not mark then return { 'not begun' } end
local id = redis.call('GET', intent_key(ARGV[1]))
if id and redis.call('HEXISTS', payment_key(id), 'consumed_at') == 1 then return { 'yes' } end
return { 'no' }
