-- lease: gives leases back, or renews them.
-- KEYS: a key a state. ARGV[1], a state: 1 to renew or 0 1 | events 4 | window_us 7 | count 2 |
-- that many names of 8.
-- Returns how many states there were.

local states, at = ARGV[1], 1

for i = 1, #KEYS do
  local renew, events, window, count = unpack('>BI4I7I2', states, at)
  local names = at + 14
  at = names + 8 * count
  lease(KEYS[i], renew == 1, events, window, string.sub(states, names, at - 1))
end
return #KEYS
