-- Writes, and tells whether the memory has begun; `not begun` would be an error.
redis.call('SET', prefix .. 'health', whole(now), 'PX', 60000)
return { schema and 'begun' or 'fresh' }
