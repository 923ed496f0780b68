-- ARGV: head. Forgets some of what may be forgotten; tells how many leases, sales and settlements.
if not mark then return { 'not begun' } end
forget(ARGV[1])
return { 'done', whole(expired), whole(forgotten), whole(ended) }
