-- What the ledger did, and what it holds.
local function counted(name) return redis.call('HGET', ledger, name) or '0' end
return { 'counts', counted('reserved'), counted('consumed'), counted('released'), counted('expired'),
  whole(redis.call('ZCARD', held)), whole(redis.call('ZCARD', kept)), mark and whole(mark) or '' }
