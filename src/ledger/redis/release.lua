-- ARGV: the lease; 'started' or 'not started'.
if not is_holder or consumed_at then return { 'lease lost' } end
redis.call('DEL', payment, intent_key(intent))
redis.call('ZREM', held, id)
local tries = tries_key(intent, id)
if redis.call('EXISTS', tries) == 1 then
  if ARGV[4] == 'started' then
    redis.call('HSET', tries, 'ended', whole(now))
    redis.call('PEXPIRE', tries, whole(KEPT))
  elseif redis.call('HINCRBY', tries, 'times', -1) < 1 then
    redis.call('DEL', tries)
  end
end
redis.call('HINCRBY', ledger, 'released', 1)
return { 'done' }
