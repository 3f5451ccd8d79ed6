-- take: answers requests one after the other, each with all of its asks in one step.
-- KEYS: a key an ask. ARGV[1], a request: how many asks it has 2, then an ask: algorithm 1 |
-- kind 1 | cost 4 | a 4 | b 7 | c 4 | d 4, the algorithm's numbers, then longest_us 7 (see
-- refuse.go) | ceiling_us 7.
-- Kinds: 0 plain, 1 shadow, 2 one that only looks, 3 one that can never pass, 4 a shadow that can
-- never pass, 5 and 6 as 0 and 1 of a request that was refused elsewhere.
-- Returns now 7, then a request: 0 1, then an ask: remaining 4 (signed) | reset_us 7 | wait_us 7;
-- or, if it could not be answered, which hurts no other one: 1 1 | length 2 | why.

local requests, last, refused = ARGV[1], 0, false

-- step reads the state of one ask, then takes the steps of those after it up to the request's
-- last, and by then knows whether any refuses. So all is read before anything is written, and
-- what was read waits in local variables. The requests before this one have written theirs.
local function step(i, at)
  local algorithm, kind, cost, a, b, c, d = unpack('>BBI4I4I7I4I4', requests, at)
  local key, peek, spend = KEYS[i], nil, nil
  -- CHOOSE peek, spend
  local wait, remaining, reset, ahead, s1, s2, s3, s4, s5 = peek(key, cost, a, b, c, d)
  if kind == 0 and wait > 0 or kind == 3 then
    refused = true
  elseif kind >= 5 then
    refused, kind = true, kind - 5
  end
  local rest
  if i < last then rest = step(i + 1, at + 39) end
  if kind <= 1 then
    if wait == 0 then
      if not refused then
        remaining, reset = spend(key, nil, cost, a, b, c, d, s1, s2, s3, s4, s5)
      end
    else
      -- It refused itself, and counts that if it has a ceiling which that does not pass.
      local longest, ceiling = unpack('>I7I7', requests, at + 25)
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
  local answer = pack('>i4I7I7', remaining, reset, wait)
  if rest then return answer .. rest end
  return answer
end

local count = unpack('>I2', requests)
if count == #KEYS then
  -- One that is alone fails by itself, so that the client sees why.
  last = count
  return pack('>I7B', now, 0) .. step(1, 3)
end

local answers, first, at = { pack('>I7', now) }, 1, 1
while first <= #KEYS do
  count = unpack('>I2', requests, at)
  last, refused = first + count - 1, false
  local fine, answer = pcall(step, first, at + 2)
  if fine then
    answers[#answers + 1] = '\0'
  else
    if type(answer) == 'table' then answer = answer.err end
    answer = string.sub(tostring(answer), 1, 999)
    answers[#answers + 1] = pack('>BI2', 1, #answer)
  end
  answers[#answers + 1] = answer
  first, at = last + 1, at + 2 + 39 * count
end
return table.concat(answers)
