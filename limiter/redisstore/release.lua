-- release: gives leases back.
-- KEYS: a key a lease. ARGV[1], a lease: window_us 7 | name 8.
-- Returns how many leases there were.

local leases = ARGV[1]

for i = 1, #KEYS do
  local window, c, d = unpack('>I7I4I4', leases, i * 15 - 14)
  release(KEYS[i], window, c, d)
end
return #KEYS
