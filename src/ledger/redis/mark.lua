-- ARGV: 'raise' or 'lower', time. Moves the mark that way, if it is on the other side, and tells it. A ledger that has not begun
-- has none.
if not mark then return { 'done', '' } end
local time = tonumber(ARGV[2])
if (ARGV[1] == 'raise' and mark < time) or (ARGV[1] == 'lower' and mark > time) then
  redis.call('HSET', ledger, 'mark', ARGV[2])
  mark = time
end
return { 'done', whole(mark) }
