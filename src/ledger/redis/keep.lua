-- ARGV: the lease; then how long the answer is kept, how many bytes all answers may take, and its content. In the same step as the
-- commit below, which is told the rest. Where there is no room for the answer nothing is written.
local keep_for, most, answer = table.remove(ARGV, 4), tonumber(table.remove(ARGV, 4)), table.remove(ARGV, 4)
local answers = prefix .. 'answers'
-- What a key takes beside its content.
local KEY = 256
-- How many answers one step counts as over at most.
local OVER = 100

-- Whether this would fill more than four fifths of the server's memory: the rest is for sales. Where the server does not tell, only
-- the bytes of all answers count.
local function is_short_of_memory(size)
  local told = redis.pcall('INFO', 'memory')
  if type(told) ~= 'string' then return false end
  local used, limit = tonumber(string.match(told, 'used_memory:(%d+)')), tonumber(string.match(told, 'maxmemory:(%d+)'))
  return used and limit and limit > 0 and used + size > limit * 0.8
end

if is_holder and not consumed_at then
  for _, over in ipairs(redis.call('ZRANGE', answers, '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, OVER)) do
    redis.call('ZREM', answers, over)
    redis.call('HINCRBY', ledger, 'answer_bytes', '-' .. string.match(over, '%d+$'))
  end
  local size = #answer + KEY
  if tonumber(redis.call('HGET', ledger, 'answer_bytes') or '0') + size > most or is_short_of_memory(size) then
    return { 'no room' }
  end
  if redis.call('ZADD', answers, whole(now + tonumber(keep_for)), intent .. '/' .. whole(size)) == 1 then
    redis.call('HINCRBY', ledger, 'answer_bytes', whole(size))
  end
  redis.call('SET', answer_key(intent), answer, 'PX', keep_for)
end
