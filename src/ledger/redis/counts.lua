-- What the ledger did, and what it holds.
local function counted(name) return redis.call('HGET', ledger, name) or '0' end
local remembered = 0
for _, field in ipairs(redis.call('HKEYS', ledger)) do
  local chain = string.match(field, '^mark:(%d+)$')
  if chain then remembered = remembered + redis.call('ZCARD', kept_key(chain)) end
end
return { 'counts', counted('reserved'), counted('consumed'), counted('released'), counted('expired'),
  whole(redis.call('ZCARD', held)), whole(remembered) }
