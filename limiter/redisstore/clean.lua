-- clean: removes what is no string, and so no state of ours.
-- KEYS: the keys to look at.

for i = 1, #KEYS do
  local key = KEYS[i]
  local length = redis.pcall('STRLEN', key)
  if type(length) == 'table' and length.err then redis.call('DEL', key) end
end
return 0
