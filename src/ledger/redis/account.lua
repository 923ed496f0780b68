-- ARGV: id of an account. Tells the clock in microseconds, and the version and the record of the account, if there is one.
if not schema then return { 'not begun' } end
local version, record = unpack(redis.call('HMGET', prefix .. 'account:' .. ARGV[1], 'version', 'record'))
return { 'done', whole(micros), version or '', record or '' }
