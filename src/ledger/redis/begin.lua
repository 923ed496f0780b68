-- ARGV: now. Starts the memory, unless it has begun, and tells the mark.
redis.call('HSETNX', ledger, 'schema', '1')
redis.call('HSETNX', ledger, 'mark', ARGV[1])
return { 'done', redis.call('HGET', ledger, 'mark') }
