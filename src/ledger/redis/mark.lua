-- ARGV: 'tell', 'raise' or 'lower'; chain, and time, unless it is to be told alone. Moves the mark that way, if it is on the other side,
-- and tells it. A chain on which the ledger has not begun has none.
local mark = mark_of(ARGV[2])
if not mark then return { 'done', '' } end
local time = tonumber(ARGV[3])
if (ARGV[1] == 'raise' and mark < time) or (ARGV[1] == 'lower' and mark > time) then
  redis.call('HSET', ledger, mark_field(ARGV[2]), ARGV[3])
  mark = time
end
return { 'done', whole(mark) }
