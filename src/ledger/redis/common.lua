-- What every script knows. All keys of a ledger share the hash tag of KEYS[1], its own record, and so one slot.
-- Replies are lists of strings, since Lua's numbers are doubles; times are milliseconds of the server's clock, but for
-- block_time, keep_until, mark and head: seconds of chain time.
local ledger = KEYS[1]
local prefix = string.sub(ledger, 1, -(#'ledger' + 1))
local held, kept, sold = prefix .. 'held', prefix .. 'kept', prefix .. 'sold'

local function payment_key(id) return prefix .. 'payment:' .. id end
local function intent_key(intent) return prefix .. 'intent:' .. intent end
local function answer_key(intent) return prefix .. 'answer:' .. intent end
local function tries_key(intent, id) return prefix .. 'tries:' .. intent .. '/' .. id end

local function whole(number) return string.format('%.0f', number) end

local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)

-- How long a count of attempts, and a lease that nobody asked about, is remembered.
local KEPT = 3600000

local schema, mark, fence = unpack(redis.call('HMGET', ledger, 'schema', 'mark', 'fence'))
if schema and schema ~= '1' then return { 'incompatible' } end
mark = tonumber(mark)
