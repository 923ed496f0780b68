-- ARGV: how many sales follow; payment, fence and block time of each, the last that the process recorded; then what the part below is
-- told. A server that has neither such a sale nor a mark above it, nor has forgotten it, lost records, and would sell them again.
for _ = 1, tonumber(table.remove(ARGV, 1)) do
  local last, last_fence, last_time = table.remove(ARGV, 1), table.remove(ARGV, 1), table.remove(ARGV, 1)
  local mark = mark_of(chain_of(last))
  if mark and mark < tonumber(last_time) then
    local is_known, sold_at = unpack(redis.call('HMGET', payment_key(last), 'fence', 'consumed_at'))
    -- A server that was allowed to evict may have dropped the record, and not the index, which was written with it.
    local is_sold = is_known == last_fence and sold_at
      or not is_known and redis.call('ZSCORE', kept_key(chain_of(last)), last)
      or redis.call('HEXISTS', prefix .. 'book', last) == 1
    if not is_sold then
      -- Where the mark was lowered since the sale was forgotten.
      local latest = forgotten_of(chain_of(last))
      if not latest or latest < tonumber(last_time) then return { 'lost' } end
    end
  end
end
