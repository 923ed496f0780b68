-- ARGV: 'raise' or 'lower', time. Moves the mark that way, if it stands on the other side.
if not mark then return { 'not begun' } end
local time = tonumber(ARGV[2])
if (ARGV[1] == 'raise' and mark < time) or (ARGV[1] == 'lower' and mark > time) then
  redis.call('HSET', ledger, 'mark', ARGV[2])
end
return { 'done' }
