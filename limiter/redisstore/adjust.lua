-- adjust: applies changes, one after the other.
-- KEYS: a key a change. ARGV[1], a change: algorithm 1 | delta 4 (signed) | a 4 | b 7 | c 4 | d 4,
-- the algorithm's numbers, then spent 7.
-- Returns how many changes there were.

local changes = ARGV[1]

for i = 1, #KEYS do
  local algorithm, delta, a, b, c, d, spent = unpack('>Bi4I4I7I4I4I7', changes, i * 31 - 30)
  local key, adjust = KEYS[i], nil
  -- CHOOSE adjust
  -- The envelope of a limit that refuses stays.
  local head, since = call('GETRANGE', key, '0', '7'), nil
  if #head == 8 and string.byte(head) == 255 then since = unpack('>I7', head, 2) end
  if since and since > now then since = now end
  adjust(key, since, delta, spent, a, b, c, d)
end
return #KEYS
