-- ARGV: the lease; then how long the answer is kept, and its content. In the same step as the commit below, which is told the rest.
local keep_for, answer = table.remove(ARGV, 4), table.remove(ARGV, 4)
if is_holder and not consumed_at then redis.call('SET', answer_key(intent), answer, 'PX', keep_for) end
