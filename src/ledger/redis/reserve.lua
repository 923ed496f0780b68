-- ARGV: intent, resource, lease; then id, block_time, keep_until and 'settled' or 'unsettled' of
-- each candidate, in their order.
if not schema then return { 'not begun' } end
local intent, resource, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- A sold payment that was mined again later is kept by its latest block time. What is not settled has none.
for i = 4, #ARGV, 4 do
  local payment, time, keep_until = payment_key(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local bought, was, kept_until = unpack(redis.call('HMGET', payment, 'consumed_at', 'block_time', 'keep_until'))
  if bought and tonumber(was) < tonumber(time) and ARGV[i + 3] == 'settled' then
    if tonumber(kept_until) > tonumber(keep_until) then keep_until = kept_until end
    redis.call('HSET', payment, 'block_time', time, 'keep_until', keep_until)
    redis.call('ZADD', kept_key(chain_of(ARGV[i])), keep_until, ARGV[i])
  end
end

local function refused(why, moment)
  return { why, whole(moment and moment - now or 0), whole(expired) }
end

-- Whether a payment is sold by the index, which is as good as its record: a server that was allowed to evict may have dropped that.
local function is_indexed(id) return redis.call('ZSCORE', kept_key(chain_of(id)), id) end

-- What the intent holds or bought.
local own = redis.call('GET', intent_key(intent))
local own_until
if own then
  local bought, ends = unpack(redis.call('HMGET', payment_key(own), 'consumed_at', 'until'))
  if bought or is_indexed(own) then return refused('intent consumed') end
  own_until = tonumber(ends)
end

-- Whether a settlement was begun of this payment for another intent, or of another payment for this intent.
local own_begun = redis.call('GET', begun_for_key(intent))
local function is_barred(id)
  local whose = redis.call('HGET', begun_key(id), 'intent')
  return (whose and whose ~= intent) or (own_begun and own_begun ~= id)
end

-- The first candidate that is neither sold, nor held, nor from before this memory.
local unsold, frees_at, free
local marks = {}
for i = 4, #ARGV, 4 do
  local bought, ends, holder = unpack(redis.call('HMGET', payment_key(ARGV[i]), 'consumed_at', 'until', 'intent'))
  if not bought and not is_indexed(ARGV[i]) then
    unsold = true
    ends = tonumber(ends)
    local chain = chain_of(ARGV[i])
    marks[chain] = marks[chain] or mark_of(chain)
    if not marks[chain] then return { 'not begun' } end
    if is_held(ends) then
      frees_at = math.min(frees_at or ends, ends)
    elseif ARGV[i + 3] == 'unsettled' and is_barred(ARGV[i]) then
      -- Once it is settled, any reader of the chain can show it. And an intent whose payment may have been settled gets no other
      -- that is to be.
      frees_at = math.min(frees_at or now + lease, now + lease)
    elseif tonumber(ARGV[i + 1]) > marks[chain] then
      free = { index = (i - 4) / 4, id = ARGV[i], block_time = ARGV[i + 1], keep_until = ARGV[i + 2],
               holder = holder }
      break
    end
  end
end
if not unsold then return refused('payment used') end
if is_held(own_until) then return refused('busy', own_until) end
if not free then
  if frees_at then return refused('busy', frees_at) end
  return refused('before memory')
end

-- Granted. What ran out is out of the way; the fence is above every earlier one, also where a fail-over or a restart
-- lost the last of them, as long as the clock is.
if own then expire(own) end
if free.holder and free.id ~= own then expire(free.id) end
local granted = whole(math.max(tonumber(fence or 0) + 1, micros))
local ends = whole(now + lease)
redis.call('HSET', ledger, 'fence', granted)
redis.call('HINCRBY', ledger, 'reserved', 1)
redis.call('HSET', payment_key(free.id), 'intent', intent, 'fence', granted, 'resource', resource, 'until', ends,
  'reserved_at', whole(now), 'block_time', free.block_time, 'keep_until', free.keep_until)
redis.call('SET', intent_key(intent), free.id)
redis.call('ZADD', held, ends, free.id)
local reply = { 'granted', whole(free.index), whole(expired), granted }
if own_begun == free.id then
  for _, word in ipairs(redis.call('HMGET', begun_key(free.id), 'request', 'head', 'tx_hash')) do
    table.insert(reply, word or '')
  end
end
return reply
