-- ARGV: ids of payments. Of each, whether it is sold, and its refund.
local answer = { 'known' }
for _, id in ipairs(ARGV) do
  local is_sold = redis.call('HEXISTS', payment_key(id), 'consumed_at') == 1
    or redis.call('HEXISTS', prefix .. 'book', id) == 1
  answer[#answer + 1] = is_sold and 'sold' or ''
  answer[#answer + 1] = redis.call('HGET', prefix .. 'refunds', id) or ''
end
return answer
