-- ARGV: id of a payment, transaction. Notes a refund, unless there is one, which it tells.
local noted = redis.call('HGET', prefix .. 'refunds', ARGV[1])
if noted then return { 'noted before', noted } end
redis.call('HSET', prefix .. 'refunds', ARGV[1], ARGV[2] .. ' ' .. whole(now))
return { 'noted' }
