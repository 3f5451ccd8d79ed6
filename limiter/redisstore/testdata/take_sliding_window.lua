-- prelude: what every script begins with. ARGV[1] holds the numbers, packed; ARGV[2], only in
-- tests, the time to go by.
--
-- All of a script is run through at each call. A local variable that functions share costs
-- more than a global one that is used once, so that only what is used often is one.

local call, pack, unpack = redis.call, struct.pack, struct.unpack

-- now is in microseconds since the epoch, as are all times in states.
local now = ARGV[2]
if now then
  now = tonumber(now)
else
  local clock = call('TIME')
  now = clock[1] * 1000000 + clock[2]
end

-- keep returns until when a key is to be kept at least, in whole seconds since the epoch, if it matters
-- for so many microseconds more; and for how many milliseconds the server has to be told to keep it. kept
-- is until when it is kept already, nil if it is fresh.
--
-- A key is kept for a second longer than it matters. To tell the server costs as much as to read the key: so
-- one that was written to before is kept longer, by as much again, at least two seconds and at most
-- a minute, and the server is not told anew as long as that lasts.
local function keep(reset, kept)
  if kept then reset = reset + math.max(2000000, math.min(reset, 60000000)) end
  local ttl = math.ceil(reset / 1000) + 1000
  -- The server's own clock expires keys, whatever the time to go by.
  if ARGV[2] and ttl < 60000 then ttl = 60000 end
  -- In 2105 the first byte would be that of an envelope.
  kept = math.min(math.floor((now + reset) / 1000000), 4278190079)
  return kept, string.format('%d', ttl)
end

-- lasts reports whether the server need not be told anew how long to keep a key that matters for reset
-- microseconds more: it is kept for as long, and not for much longer. The latter comes of a window that was
-- made smaller, of much that was given back, and of a clock that was set back.
local function lasts(reset, kept)
  local spare = kept * 1000000 - now - reset
  return spare >= 0 and spare <= reset + 60000000
end

-- write puts down a state that matters for reset microseconds more: a head, packed by a format that
-- begins with that of kept, and a tail. If since is given, it comes in an envelope.
local function write(key, reset, since, kept, tail, format, ...)
  local ttl
  if not kept or not lasts(reset, kept) then kept, ttl = keep(reset, kept) end
  local state = pack(format, kept, ...) .. tail
  if since then state = pack('>BI7', 255, since) .. state end
  if ttl then
    call('SET', key, state, 'PX', ttl)
  else
    call('SET', key, state, 'KEEPTTL')
  end
end

local w_peek, w_spend
do
-- sliding_window: the marked log, see sliding_window.go. Its numbers are a = events,
-- b = window_us and c = k, how many events a mark stands for.
-- State: kept 4 | version 1 | k 3 | fill 4 | marks of 6, in units of 8 us since 2025.

local elapsed = now - 1735689600000000 -- since the beginning of 2025
local top = math.ceil(elapsed / 8) -- now, as a mark
if top < 0 then top = 0 end
local top_mark = pack('>I6', top)

-- lay returns the live marks laid down anew: regrouped if each stood for another number of
-- events, and none ahead of now. live is how many events they stand for. The oldest events
-- above the limit are left out; how many is returned last.
local function lay(state, from, events, k, was, live)
  local skip = live - events
  if was == k or skip < 0 then skip = 0 end
  live = live - skip
  local marks, n = '', math.ceil(live / k)
  for i = 1, n do
    local newest = i * k
    if newest > live then newest = live end
    local at = unpack('>I6', state, from + math.floor((skip + newest - 1) / was) * 6)
    if at > top then at = top end
    marks = marks .. pack('>I6', at)
  end
  local fill = live - (n - 1) * k
  return string.sub(state, 1, 4) .. pack('>BI3I4', 1, k, fill) .. marks, n, live, fill, skip
end

-- read_marked returns a state and what of it is alive: from which byte on marks do, how many,
-- how many events in all and in the newest mark, that mark, and whether it was ahead of now.
local function read_marked(key, events, window, k)
  local state = call('GET', key)
  if not state then return '', 13, 0, 0, 0 end
  local n = (#state - 12) / 6
  if n % 1 ~= 0 then
    if string.byte(state) == 255 then state = string.sub(state, 9) end
    n = (#state - 12) / 6
  end
  if n < 1 or n > 72 or n % 1 ~= 0 then return '', 13, 0, 0, 0 end
  local version, was, fill, oldest = unpack('>BI3I4I6', state, 5)
  local newest = oldest
  if n > 1 then newest = unpack('>I6', state, #state - 5) end
  local dead = (elapsed - window) / 8
  if newest <= dead or version ~= 1 or fill < 1 or fill > was then return '', 13, 0, 0, 0 end
  local from, ahead = 13, newest > top
  while oldest <= dead do
    from, n = from + 6, n - 1
    oldest = unpack('>I6', state, from)
  end
  local live, skip = (n - 1) * was + fill, 0
  if was ~= k or ahead then
    state, n, live, fill, skip = lay(state, from, events, k, was, live)
    newest = unpack('>I6', state, #state - 5)
    from = 13
  end
  return state, from, n, live, fill, newest, ahead, skip
end

local function peek(key, cost, events, window, k)
  local state, from, n, live, fill, newest, ahead = read_marked(key, events, window, k)
  local wait, reset, over, base = 0, 0, live + cost - events, window - elapsed
  if n > 0 then reset = base + newest * 8 end
  if over > 0 then
    -- As many marks as hold what is too much have to expire.
    local first = math.ceil(over / k)
    if first > n then first = n end
    wait = base + unpack('>I6', state, from + first * 6 - 6) * 8
  end
  return wait, events - live, reset, ahead, state, from, n, live, fill
end

local function spend(key, since, cost, events, window, k, _, state, from, n, live, fill)
  local over = live + cost - events
  if over > 0 and cost > 0 then
    -- The log is full afterwards: the oldest make room.
    local drop = math.ceil(over / k)
    if drop > n then drop = n end
    from, n, live = from + drop * 6, n - drop, live - drop * k
    if n == 0 then live = 0 end
    cost = events - live
  end
  live = live + cost
  -- The newest mark is filled up first; it then bears the time of the newest event.
  local some, fresh, stop = 0, 0, -1
  if n > 0 then some = k - fill end
  if some > cost then some = cost end
  if some > 0 then fill, fresh, stop = fill + some, 1, -7 end
  if cost > some then
    local more = math.ceil((cost - some) / k)
    fresh, fill = fresh + more, cost - some - (more - 1) * k
  end
  local mark, newest = top_mark, top
  if fresh == 0 then
    mark, newest = '', unpack('>I6', state, #state - 5)
  elseif fresh > 1 then
    mark = string.rep(mark, fresh)
  end
  local reset, kept = window - elapsed + newest * 8, nil
  if state ~= '' then kept = unpack('>I4', state) end
  write(key, reset, since, kept, string.sub(state, from, stop) .. mark, '>I4BI3I4', 1, k, fill)
  return events - live, reset
end

w_peek, w_spend = peek, spend
end

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
  peek, spend = w_peek, w_spend
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
