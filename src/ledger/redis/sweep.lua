-- ARGV: chain, head. Forgets some of what may be forgotten; tells how many leases, sales and settlements.
local mark = mark_of(ARGV[1])
if not mark then return { 'not begun' } end
forget(ARGV[1], mark, ARGV[2])
return { 'done', whole(expired), whole(forgotten), whole(ended) }
