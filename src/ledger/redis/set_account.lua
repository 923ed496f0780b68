-- ARGV: id of an account, the version that was read, or an empty word where there was none; the record, and its end in microseconds,
-- or an empty word; of a claimable account also whether something is owed, and whether it is not closed. Writes it, unless another
-- was faster.
if not schema then return { 'not begun' } end
local id, read, record, expires = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = prefix .. 'account:' .. id
local version = redis.call('HGET', key, 'version') or ''
if version ~= read then return { 'changed' } end
-- No version comes again, be it that of an account which was forgotten and opened anew.
local later = math.max((tonumber(version) or 0) + 1, micros)
redis.call('HSET', key, 'version', whole(later), 'record', record)
if expires == '' then
  redis.call('ZREM', prefix .. 'accounts_expire', id)
else
  redis.call('ZADD', prefix .. 'accounts_expire', expires, id)
end
if ARGV[5] == 'owed' then redis.call('ZADD', prefix .. 'accounts_owed', 0, id) end
if ARGV[5] == 'claimed' then redis.call('ZREM', prefix .. 'accounts_owed', id) end
if ARGV[6] == 'open' then redis.call('ZADD', prefix .. 'accounts_claimable', 0, id) end
if ARGV[6] == 'closed' then redis.call('ZREM', prefix .. 'accounts_claimable', id) end
return { 'done' }
