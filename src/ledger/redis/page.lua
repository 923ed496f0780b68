-- ARGV: since, until, most. Sales from that time until before the other: those that are known and those that are booked, so many of
-- each. What is sold in this very millisecond is held back, because a sale that comes before it in the order may follow; the first word
-- says so.
local since, before, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
if tonumber(before) > now then
  if redis.call('ZCOUNT', sold, whole(now), '(' .. before) > 0 then answer[1] = 'sales of the past' end
  before = whole(now)
end
of_set(sold, since, before, most, function(id)
  local told = redis.call('HMGET', payment_key(id), unpack(fields))
  if told[#fields] then tell(id, function(i) return told[i] end) end
end)
of_set(prefix .. 'booked', since, before, most, written_in(prefix .. 'book'))
return answer
