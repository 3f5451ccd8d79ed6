-- take: answers all asks in one step.
-- KEYS: a key an ask. ARGV[1], an ask: algorithm 1 | kind 1 | cost 4 | a 4 | b 7 | c 4 | d 4, the
-- algorithm's numbers, then longest_us 7 (see refuse.go) | ceiling_us 7.
-- Kinds: 0 plain, 1 shadow, 2 one that only looks, 3 one that can never pass, 4 a shadow that can
-- never pass, 5 and 6 as 0 and 1 of a request that was refused elsewhere.
-- Returns now 7, then an ask: remaining 4 (signed) | reset_us 7 | wait_us 7.

local refused = false

-- step reads the state of one ask, then takes the steps of those after it, and by then knows
-- whether any refuses. So all is read before anything is written, and what was
-- read waits in local variables.
local function step(i, at)
  local algorithm, kind, cost, a, b, c, d = unpack('>BBI4I4I7I4I4', ARGV[1], at)
  local key, peek, spend = KEYS[i], nil, nil
  -- CHOOSE peek, spend
  local wait, remaining, reset, ahead, s1, s2, s3, s4, s5 = peek(key, cost, a, b, c, d)
  if kind == 0 and wait > 0 or kind == 3 then
    refused = true
  elseif kind >= 5 then
    refused, kind = true, kind - 5
  end
  local rest = ''
  if KEYS[i + 1] then rest = step(i + 1, at + 39) end
  if kind <= 1 then
    if wait == 0 then
      if not refused then
        remaining, reset = spend(key, nil, cost, a, b, c, d, s1, s2, s3, s4, s5)
      end
    else
      -- It refused itself, and counts that if it has a ceiling which that does not pass.
      local longest, ceiling = unpack('>I7I7', ARGV[1], at + 25)
      local since
      if ceiling > 0 or ahead then
        -- Since when it refuses, if an envelope tells.
        local head = call('GETRANGE', key, '0', '7')
        if #head == 8 and string.byte(head) == 255 then since = unpack('>I7', head, 2) end
        if since and since > now then since = now end
      end
      if ceiling > 0 and now + longest <= (since or now) + ceiling then
        spend(key, since or now, cost, a, b, c, d, s1, s2, s3, s4, s5)
        wait, remaining, reset = peek(key, cost, a, b, c, d)
      elseif ahead then
        -- Else a key that is always refused was not free before the clock has caught up.
        spend(key, since, 0, a, b, c, d, s1, s2, s3, s4, s5)
      end
    end
  end
  if i == 1 then return pack('>I7i4I7I7', now, remaining, reset, wait) .. rest end
  return pack('>i4I7I7', remaining, reset, wait) .. rest
end

return step(1, 1)
