-- ARGV: chain, now. Starts the memory of this chain, unless it has begun, and tells the mark.
redis.call('HSETNX', ledger, 'schema', '2')
redis.call('HSETNX', ledger, mark_field(ARGV[1]), ARGV[2])
return { 'done', redis.call('HGET', ledger, mark_field(ARGV[1])) }
