-- ARGV: intent, resource, lease, purchase or ''; then id, block_time, keep_until and 'settled' or 'unsettled' of
-- each candidate, in their order.
if not schema then return { 'not begun' } end
local intent, resource, lease, claimed = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local FIRST = 5

-- A sold payment that was mined again later is kept by its latest block time. What is not settled has none.
for i = FIRST, #ARGV, 4 do
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
local own_purchase = own_begun and redis.call('HGET', begun_key(own_begun), 'purchase')
local function is_barred(id, whose) return (whose and whose ~= intent) or (own_begun and own_begun ~= id) end

-- How another payment stands in the way of a purchase: 'sold', or until when; and whose lease it is, which may have run out.
local function rival_of(purchase, id)
  if purchase == '' then return end
  local other = redis.call('GET', purchase_key(purchase))
  if other == id then other = nil end
  if other then
    local bought, ends = unpack(redis.call('HMGET', payment_key(other), 'consumed_at', 'until'))
    if bought or is_indexed(other) then return 'sold' end
    if is_held(tonumber(ends)) then return tonumber(ends) end
  end
  local waiting = redis.call('GET', begun_as_key(purchase))
  if waiting and waiting ~= id and redis.call('HGET', begun_key(waiting), 'intent') ~= intent then return now + lease end
  return nil, other
end

-- The first candidate that is neither sold, nor held, nor from before this memory.
local unsold, frees_at, free
local marks = {}
for i = FIRST, #ARGV, 4 do
  local bought, ends, holder = unpack(redis.call('HMGET', payment_key(ARGV[i]), 'consumed_at', 'until', 'intent'))
  if not bought and not is_indexed(ARGV[i]) then
    ends = tonumber(ends)
    local chain = chain_of(ARGV[i])
    marks[chain] = marks[chain] or mark_of(chain)
    if not marks[chain] then return { 'not begun' } end
    -- The purchase of a settlement that was begun stays.
    local whose, begun_as = unpack(redis.call('HMGET', begun_key(ARGV[i]), 'intent', 'purchase'))
    local purchase = begun_as or own_purchase or claimed
    local rival, lapsed = rival_of(purchase, ARGV[i])
    if rival == 'sold' then
      if not (unsold and is_held(own_until)) then return refused('purchase consumed') end
      rival = own_until
    end
    unsold = true
    if is_held(ends) then
      frees_at = math.min(frees_at or ends, ends)
    elseif ARGV[i + 3] == 'unsettled' and is_barred(ARGV[i], whose) then
      -- Once it is settled, any reader of the chain can show it. And an intent whose payment may have been settled gets no other
      -- that is to be.
      frees_at = math.min(frees_at or now + lease, now + lease)
    elseif rival then
      frees_at = math.min(frees_at or rival, rival)
    elseif tonumber(ARGV[i + 1]) > marks[chain] then
      free = { index = (i - FIRST) / 4, id = ARGV[i], block_time = ARGV[i + 1], keep_until = ARGV[i + 2],
               holder = holder, purchase = purchase, lapsed = lapsed }
      break
    end
  end
end
if not unsold then return refused('payment used') end
if is_held(own_until) then return refused('intent held', own_until) end
if not free then
  if frees_at then return refused('busy', frees_at) end
  return refused('before memory')
end

-- Granted. What ran out is out of the way; the fence is above every earlier one, also where a fail-over or a restart
-- lost the last of them, as long as the clock is.
if own then expire(own) end
if free.holder and free.id ~= own then expire(free.id) end
if free.lapsed and free.lapsed ~= own then expire(free.lapsed) end
local granted = whole(math.max(tonumber(fence or 0) + 1, micros))
local ends = whole(now + lease)
redis.call('HSET', ledger, 'fence', granted)
redis.call('HINCRBY', ledger, 'reserved', 1)
redis.call('HSET', payment_key(free.id), 'intent', intent, 'fence', granted, 'resource', resource, 'until', ends,
  'reserved_at', whole(now), 'block_time', free.block_time, 'keep_until', free.keep_until)
redis.call('SET', intent_key(intent), free.id)
if free.purchase ~= '' then
  redis.call('HSET', payment_key(free.id), 'purchase', free.purchase)
  redis.call('SET', purchase_key(free.purchase), free.id)
end
redis.call('ZADD', held, ends, free.id)
local reply = { 'granted', whole(free.index), whole(expired), granted }
if own_begun == free.id then
  for _, word in ipairs(redis.call('HMGET', begun_key(free.id), 'request', 'head', 'tx_hash')) do
    table.insert(reply, word or '')
  end
end
return reply
