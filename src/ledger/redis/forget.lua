-- How many records of each kind one step forgets at most: too few for a sale to notice.
local BATCH = 64
local forgotten, ended = 0, 0

local function forget(chain, mark, head)
  -- Forgets sales that age keeps from coming back, and raises the mark over each.
  local kept, begun = kept_key(chain), begun_by_age_key(chain)
  local latest = forgotten_of(chain) or 0
  local aged = redis.call('ZRANGE', kept, '-inf', '(' .. head, 'BYSCORE', 'LIMIT', 0, BATCH)
  for _, id in ipairs(aged) do
    local buyer, block_time, purchase = unpack(redis.call('HMGET', payment_key(id), 'intent', 'block_time', 'purchase'))
    if buyer then
      mark = math.max(mark, tonumber(block_time))
      latest = math.max(latest, tonumber(block_time))
      redis.call('HSET', ledger, mark_field(chain), whole(mark), forgotten_field(chain), whole(latest))
      -- By its latest block; and also where another handle, which keeps no book, sold it.
      book(id)
      redis.call('DEL', payment_key(id), intent_key(buyer), answer_key(buyer))
      if purchase then redis.call('DEL', purchase_key(purchase)) end
    end
    redis.call('ZREM', kept, id)
    redis.call('ZREM', sold, id)
    forgotten = forgotten + 1
  end

  -- Forgets leases that ran out long ago. The mark stays: nothing was sold.
  local idle = redis.call('ZRANGE', held, '-inf', '(' .. whole(now - KEPT), 'BYSCORE', 'LIMIT', 0, BATCH)
  for _, id in ipairs(idle) do expire(id) end

  -- Forgets settlements that were begun of payments that age keeps from coming back.
  local over = redis.call('ZRANGE', begun, '-inf', '(' .. head, 'BYSCORE', 'LIMIT', 0, BATCH)
  for _, id in ipairs(over) do
    local whose, purchase = unpack(redis.call('HMGET', begun_key(id), 'intent', 'purchase'))
    redis.call('ZREM', begun, id)
    if whose then redis.call('DEL', begun_key(id), begun_for_key(whose)) end
    if purchase then redis.call('DEL', begun_as_key(purchase)) end
    ended = ended + 1
  end
end
