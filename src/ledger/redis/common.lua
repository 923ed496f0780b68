-- What every script knows. All keys of a ledger share the hash tag of KEYS[1], its own record, and so one slot.
-- Replies are lists of strings, since Lua's numbers are doubles; times are milliseconds of the server's clock, but for
-- block_time, keep_until, mark and head: seconds of chain time.
local ledger = KEYS[1]
local prefix = string.sub(ledger, 1, -(#'ledger' + 1))
local held, sold = prefix .. 'held', prefix .. 'sold'

local function payment_key(id) return prefix .. 'payment:' .. id end
local function intent_key(intent) return prefix .. 'intent:' .. intent end
local function answer_key(intent) return prefix .. 'answer:' .. intent end

-- A settlement that was begun, by its payment; and which one was begun for an intent.
local function begun_key(id) return prefix .. 'settling:' .. id end
local function begun_for_key(intent) return prefix .. 'settling_for:' .. intent end

-- Which payment holds or bought a purchase that a client named, and which one is being settled for it.
local function purchase_key(purchase) return prefix .. 'purchase:' .. purchase end
local function begun_as_key(purchase) return prefix .. 'settling_as:' .. purchase end

-- The chain of a payment; its sales, and the settlements that were begun there, by the chain time until which each is kept.
local function chain_of(id) return string.match(id, '^eip155:(%d+)/') end
local function kept_key(chain) return prefix .. 'kept:' .. chain end
local function begun_by_age_key(chain) return prefix .. 'begun:' .. chain end

local function whole(number) return string.format('%.0f', number) end

local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

-- Whether a lease with this end is held. One that ends later than the longest lease, and the skew of clocks, was granted before the
-- clock was set back, and has run out.
local FURTHEST_END = 3720000
local function is_held(ends) return ends and ends > now and ends <= now + FURTHEST_END end

-- How long an unused lease is remembered.
local KEPT = 3600000

-- No schema: the ledger has not begun.
local schema, fence = unpack(redis.call('HMGET', ledger, 'schema', 'fence'))
if schema and schema ~= '2' then return { 'incompatible' } end

-- The mark of a chain, if the ledger has begun there.
local function mark_field(chain) return 'mark:' .. chain end
local function mark_of(chain) return tonumber(redis.call('HGET', ledger, mark_field(chain)) or nil) end

-- The latest block time of a sale of a chain that age has ruled out and that was forgotten. Unlike the mark it is never lowered.
local function forgotten_field(chain) return 'forgotten:' .. chain end
local function forgotten_of(chain) return tonumber(redis.call('HGET', ledger, forgotten_field(chain)) or nil) end

-- Ends the settlements that were begun of this payment, or for this intent.
local function end_settling(intent, id)
  for _, each in ipairs({ id, redis.call('GET', begun_for_key(intent)) or id }) do
    local whose, purchase = unpack(redis.call('HMGET', begun_key(each), 'intent', 'purchase'))
    if whose then
      redis.call('DEL', begun_key(each), begun_for_key(whose))
      if purchase then redis.call('DEL', begun_as_key(purchase)) end
      redis.call('ZREM', begun_by_age_key(chain_of(each)), each)
    end
  end
end
