-- ARGV: head. Starts the memory, unless it has begun.
redis.call('HSETNX', ledger, 'schema', '1')
redis.call('HSETNX', ledger, 'mark', ARGV[1])
return { 'done' }
