-- What is told of a sale, and a sale as it is on record now.
local fields = { 'resource', 'chain_id', 'tx_hash', 'log_position', 'payer', 'recipient', 'token', 'amount', 'block_number',
  'block_time', 'maximum', 'consumed_at' }

local function record(id)
  local told, sale = redis.call('HMGET', payment_key(id), unpack(fields)), {}
  for i, field in ipairs(fields) do sale[field] = told[i] or '' end
  return sale
end
