-- ARGV: intent. Whether it bought its answer, and what is kept of that.
if not schema then return { 'not begun' } end
local id = redis.call('GET', intent_key(ARGV[1]))
if not id or redis.call('HEXISTS', payment_key(id), 'consumed_at') == 0 then return { 'no' } end
local answer = redis.call('GET', answer_key(ARGV[1]))
if answer then return { 'yes', answer } end
return { 'yes' }
