-- ARGV: a list of accounts, an id or an empty word, and how many accounts at most. Tells the clock in microseconds, then ids and records of
-- the accounts on that list behind that id, in their order.
if not schema then return { 'not begun' } end
local answer = { 'done', whole(micros) }
local behind = ARGV[2] == '' and '-' or '(' .. ARGV[2]
for _, id in ipairs(redis.call('ZRANGE', prefix .. ARGV[1], behind, '+', 'BYLEX', 'LIMIT', 0, ARGV[3])) do
  answer[#answer + 1] = id
  answer[#answer + 1] = redis.call('HGET', prefix .. 'account:' .. id, 'record') or ''
end
return answer
