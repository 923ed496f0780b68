-- ARGV: since, most. Sales from that time on that wait for their announcement.
of_set(prefix .. 'unannounced', ARGV[1], '+inf', tonumber(ARGV[2]), written_in(prefix .. 'unannounced_sales'))
return answer
