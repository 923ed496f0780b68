-- ARGV: microseconds. Forgets accounts that expired longer ago, some at a time; tells how many.
local ended = redis.call('ZRANGEBYSCORE', prefix .. 'accounts_expire', '-inf', whole(micros - tonumber(ARGV[1])), 'LIMIT', 0, 128)
for _, id in ipairs(ended) do
  redis.call('DEL', prefix .. 'account:' .. id)
  redis.call('ZREM', prefix .. 'accounts_expire', id)
  redis.call('ZREM', prefix .. 'accounts_claimable', id)
end
return { 'done', whole(#ended) }
