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

local l_peek, l_spend
do
-- sliding_log: see sliding_log.go. Its numbers are a = events and b = window_us.
-- State: kept 4 | version 1 | size 4 | next 4 | used 4 | events of 7, a ring. It may be long, so that
-- only what is needed of it is read and written.

-- range reads bytes of a key, counted from 0.
local function range(key, from, length)
  return call('GETRANGE', key, string.format('%d', from), string.format('%d', from + length - 1))
end

-- event returns the i-th of the live events before the slot next, counted from 0. base is
-- where the state begins in the key.
local function event(key, base, size, next, live, i)
  local slot = next - live + i
  if slot < 0 then slot = slot + size end
  return (unpack('>I7', range(key, base + 13 + slot * 7, 7)))
end

-- count_live returns how many of the used events still count. Times never fall from the
-- oldest to the newest: the first that counts is found by steps that double, since
-- mostly it is among the first, and then by halving.
local function count_live(key, base, size, next, used, window)
  local low, high, pace = 0, used, 1
  while low < high do
    local mid = low + pace - 1
    if mid >= high then mid = math.floor((low + high) / 2) end
    if now - event(key, base, size, next, used, mid) >= window then
      low, pace = mid + 1, pace * 2
    else
      high, pace = mid, 1e9
    end
  end
  return used - low
end

-- read_ring returns where the state begins in the key, the ring's size and next slot, the number
-- of events that count, and until when the key is kept.
local function read_ring(key, events, window)
  local head, base = range(key, 0, 25), 4
  if string.byte(head) == 255 then head, base = string.sub(head, 9), 12 end
  if #head < 17 then return 4, events, 0, 0 end
  local kept, version, size, next, used = unpack('>I4BI4I4I4', head)
  local slots = (call('STRLEN', key) - base - 13) / 7
  if version ~= 1 or slots % 1 ~= 0 or size < 1 or size > 100000 or slots > size or used > slots
    or next >= size or next > slots or (slots < size and used > next) then
    return 4, events, 0, 0
  end
  return base, size, next, count_live(key, base, size, next, used, window), kept
end

-- left returns how many microseconds the i-th live event still counts, and whether it is
-- ahead of now; then it counts as of now.
local function left(key, base, size, next, live, i, window)
  local at = event(key, base, size, next, live, i)
  if at > now then return window, true end
  return at - now + window
end

local function peek(key, cost, events, window)
  local base, size, next, live, kept = read_ring(key, events, window)
  local wait, reset, over, ahead = 0, 0, live + cost - events, nil
  if live > 0 then reset, ahead = left(key, base, size, next, live, live - 1, window) end
  if over > 0 then wait = left(key, base, size, next, live, over - 1, window) end
  return wait, events - live, reset, ahead, base, size, next, live, kept
end

-- lay returns the newest live events, at most as many as the limit allows, as a ring of that
-- size, the oldest in its first slot, with their number and the next slot.
local function lay(key, base, size, next, live, events)
  local count = live
  if count > events then count = events end
  local oldest = next - count
  local ring
  if oldest >= 0 then
    ring = range(key, base + 13 + oldest * 7, count * 7)
  else
    ring = range(key, base + 13 + (oldest + size) * 7, -oldest * 7) .. range(key, base + 13, next * 7)
  end
  local i = count
  while i > 0 and unpack('>I7', ring, i * 7 - 6) > now do i = i - 1 end
  ring = string.sub(ring, 1, i * 7) .. string.rep(pack('>I7', now), count - i)
  return ring, count, count % events
end

-- put writes events of now into a ring from the slot next on, and returns the slot after.
local function put(key, size, next, count)
  local first = count
  if first > size - next then first = size - next end
  local at = pack('>I7', now)
  if first > 0 then call('SETRANGE', key, string.format('%d', 17 + next * 7), string.rep(at, first)) end
  if count > first then call('SETRANGE', key, '17', string.rep(at, count - first)) end
  return (next + count) % size
end

local function spend(key, since, cost, events, window, _, _, base, size, next, live, kept)
  local over = live + cost - events
  if over > 0 and cost > 0 then
    -- The log is full afterwards: the oldest make room.
    live = live - over
    if live < 0 then live = 0 end
  end
  local reset, ttl = window, nil
  if live == 0 then
    -- A ring begun anew, written whole below.
    kept, ttl = keep(reset)
    call('SET', key, string.rep('\0', 17), 'PX', ttl)
    size, next = events, 0
  else
    if size ~= events and cost > 0 then
      local ring
      ring, live, next = lay(key, base, size, next, live, events)
      call('SET', key, string.rep('\0', 17) .. ring, 'KEEPTTL')
      size = events
    else
      if base > 4 then call('SET', key, range(key, base - 4, 17 + size * 7), 'KEEPTTL') end
      local newest = live
      while newest > 0 and event(key, 4, size, next, live, newest - 1) > now do newest = newest - 1 end
      if newest < live then put(key, size, (next - live + newest) % size, live - newest) end
    end
    if cost == 0 then reset = left(key, 4, size, next, live, live - 1, window) end
    if not lasts(reset, kept) then
      -- The state must not say so if the server cannot be told.
      kept, ttl = keep(reset, kept)
      call('PEXPIRE', key, ttl)
    end
  end
  local head = pack('>I4', kept)
  if cost > 0 then
    next, live = put(key, size, next, cost), live + cost
    head = head .. pack('>BI4I4I4', 1, size, next, live)
  end
  call('SETRANGE', key, '0', head)
  if since then call('SET', key, pack('>BI7', 255, since) .. call('GET', key), 'KEEPTTL') end
  return events - live, reset
end

l_peek, l_spend = peek, spend
end

local c_peek, c_spend
do
-- sliding_counter: see sliding_counter.go. Its numbers are a = events and b = window_us.
-- State: kept 4 | version 1 | start 7 | current 4 | previous 4.

-- read_counter returns the counts as they are now, and whether their window was to begin
-- later.
local function read_counter(key, window)
  local state = call('GET', key)
  if not state then return now, 0, 0 end
  if #state ~= 20 then
    if string.byte(state) == 255 then state = string.sub(state, 9) end
    if #state ~= 20 then return now, 0, 0 end
  end
  local kept, version, start, current, previous = unpack('>I4BI7I4I4', state)
  if version ~= 1 then return now, 0, 0 end
  local passed = now - start
  if passed < 0 then return now, current, previous, kept, true end
  if passed < window then return start, current, previous, kept end
  if passed < 2 * window then return start + window, 0, current, kept end
  return now, 0, 0, kept
end

-- grain returns the unit of time, in microseconds, in which a window can be weighed
-- without a product above 2^53, and the window's length in it.
local function grain(previous, events, window)
  if previous > events then events = previous end
  local unit = math.ceil(window * events / 4503599627370496)
  if unit < 1 then unit = 1 end
  return unit, math.ceil(window / unit)
end

-- estimate returns what the last window saw, rounded up.
local function estimate(start, current, previous, events, window)
  if previous == 0 then return current end
  local unit, span = grain(previous, events, window)
  return current + math.ceil(previous * (span - math.floor((now - start) / unit)) / span)
end

-- slid returns how many microseconds into a window at most room of the count of the
-- window before still weighs.
local function slid(previous, room, events, window)
  if previous <= room then return 0 end
  local unit, span = grain(previous, events, window)
  return unit * (span - math.floor(room * span / previous))
end

local function await(start, current, previous, cost, events, window)
  local past, room = now - start, events - current - cost
  if room >= 0 then
    local at = slid(previous, room, events, window)
    if at < window then return at - past end
  end
  local at = slid(current, events - cost, events, window)
  if at > window then at = window end
  return window + at - past
end

local function until_fresh(start, current, previous, window)
  if current > 0 then return start - now + 2 * window end
  if previous > 0 then return start - now + window end
  return 0
end

local function peek(key, cost, events, window)
  local start, current, previous, kept, ahead = read_counter(key, window)
  local used, wait = estimate(start, current, previous, events, window), 0
  if used + cost > events then
    wait = await(start, current, previous, cost, events, window)
  end
  return wait, events - used, until_fresh(start, current, previous, window), ahead, start, current, previous, kept
end

local function spend(key, since, cost, events, window, _, _, start, current, previous, kept)
  local sum = current + cost
  if sum > events then sum = events end
  if sum > current then current = sum end
  local reset = until_fresh(start, current, previous, window)
  write(key, reset, since, kept, '', '>I4BI7I4I4', 1, start, current, previous)
  return events - estimate(start, current, previous, events, window), reset
end

c_peek, c_spend = peek, spend
end

local t_peek, t_spend
do
-- token_bucket: see token_bucket.go. Its numbers are a = events and b = span_us, the rate in
-- lowest terms, and c = burst.
-- State: kept 4 | version 1 | time 7 | part 3 | used 4 | age 5.

-- read_bucket returns the tokens used, the part of the next one in tokens/span, the
-- beginning of the busy period, and whether the state lies ahead of now. A bucket that is
-- full is a fresh one.
local function read_bucket(key, events, span, burst)
  local state = call('GET', key)
  if not state then return 0, 0, now end
  if #state ~= 24 then
    if string.byte(state) == 255 then state = string.sub(state, 9) end
    if #state ~= 24 then return 0, 0, now end
  end
  local kept, version, at, part, used, age = unpack('>I4BI7I3I4I5', state)
  if version ~= 1 then return 0, 0, now end
  local busy, passed, ahead = at - age, now - at, false
  if passed < 0 then
    passed, ahead = 0, true
    if busy > now then busy = now end
  end
  if part >= events then part = events - 1 end
  if used > burst then used = burst end
  local missing = used * span - part
  if missing <= 0 or passed >= math.ceil(missing / events) then return 0, 0, now, ahead, kept end
  part = part + passed * events
  local rest = part % span
  return used - (part - rest) / span, rest, busy, ahead, kept
end

local function write_bucket(key, since, used, part, busy, kept, events, span)
  local rest = part % events
  local at = now - (part - rest) / events
  local age = at - busy
  if age < 0 then age = 0 elseif age > 1099511627775 then age = 1099511627775 end
  local reset = math.ceil((used * span - part) / events)
  write(key, reset, since, kept, '', '>I4BI7I3I4I5', 1, at, rest, used, age)
  return reset
end

local function peek(key, cost, events, span, burst)
  local used, part, busy, ahead, kept = read_bucket(key, events, span, burst)
  local wait, reset, over = 0, 0, used + cost - burst
  if used > 0 then reset = math.ceil((used * span - part) / events) end
  if over > 0 then wait = math.ceil((over * span - part) / events) end
  return wait, burst - used, reset, ahead, used, part, busy, kept
end

local function spend(key, since, cost, events, span, burst, _, used, part, busy, kept)
  used = used + cost
  if used > burst then used, part = burst, 0 end
  return burst - used, write_bucket(key, since, used, part, busy, kept, events, span)
end

t_peek, t_spend = peek, spend
end

local f_peek, f_spend
do
-- fixed_window: see fixed_window.go. Its numbers are a = events and b = window_us.
-- State: kept 4 | version 1 | start 7 | count 4.

-- read_fixed returns the window that now falls into, and whether it was to begin later.
-- left is 0 if there is none, and one would begin now.
local function read_fixed(key, window)
  local state = call('GET', key)
  if not state then return now, 0, 0 end
  if #state ~= 16 then
    if string.byte(state) == 255 then state = string.sub(state, 9) end
    if #state ~= 16 then return now, 0, 0 end
  end
  local kept, version, start, count = unpack('>I4BI7I4', state)
  if version ~= 1 then return now, 0, 0 end
  if start > now then return now, count, window, true, kept end
  local left = start - now + window
  if left <= 0 then return now, 0, 0, false, kept end
  return start, count, left, false, kept
end

local function peek(key, cost, events, window)
  local start, count, left, ahead, kept = read_fixed(key, window)
  local wait = 0
  if count + cost > events then wait = left end
  return wait, events - count, left, ahead, start, count, kept
end

local function spend(key, since, cost, events, window, _, _, start, count, kept)
  if cost > 0 then
    count = count + cost
    if count > events then
      -- A client that keeps hammering is refused for a whole window more.
      count, start = events, now
    end
  end
  local left = start - now + window
  write(key, left, since, kept, '', '>I4BI7I4', 1, start, count)
  return events - count, left
end

f_peek, f_spend = peek, spend
end

local i_peek, i_spend
do
-- in_flight: see in_flight.go. Its numbers are a = events, b = window_us, and c and d the two
-- halves of the lease's name.
-- State: kept 4 | version 1 | leases of 15: name 8, until 7.

local function read_leases(key)
  local state = call('GET', key) or ''
  if string.byte(state) == 255 then state = string.sub(state, 9) end
  if #state < 20 or (#state - 5) % 15 ~= 0 or string.byte(state, 5) ~= 1 then return '' end
  return string.sub(state, 5), (unpack('>I4', state))
end

-- peek: a cost of 0 looks, whoever holds a lease. The last value tells whether all leases stay as
-- they are when that one comes.
local function peek(key, cost, events, window, c, d)
  local state, kept = read_leases(key)
  local live, held, ahead, soonest, latest = 0, false, nil, 0, 0
  for at = 2, #state, 15 do
    local high, low, left = unpack('>I4I4I7', state, at)
    left = left - now
    if left > window then left, ahead = window, true end
    if left > 0 then
      live = live + 1
      if live == 1 or left < soonest then soonest = left end
      if left > latest then latest = left end
      if high == c and low == d then held = true end
    end
  end
  local wait = 0
  if live >= events and not (held and cost > 0) then wait = soonest end
  return wait, events - live, latest, ahead, state, not held and not ahead and 15 * live + 1 == #state, kept
end

-- still returns the leases that are not over and not of that name, how many they are, and in
-- how many microseconds the last of them ends. What stays as it is stays in one piece.
local function still(state, window, c, d)
  local pieces, from, live, latest = {}, 2, 0, 0
  for at = 2, #state, 15 do
    local high, low, left = unpack('>I4I4I7', state, at)
    left = left - now
    local mine = high == c and low == d
    if left <= 0 or left > window or mine then
      pieces[#pieces + 1] = string.sub(state, from, at - 1)
      from = at + 15
      if left > window then left = window end
      if left > 0 and not mine then pieces[#pieces + 1] = pack('>I4I4I7', high, low, now + left) end
    end
    if left > 0 and not mine then
      live = live + 1
      if left > latest then latest = left end
    end
  end
  pieces[#pieces + 1] = string.sub(state, from)
  return table.concat(pieces), live, latest
end

local function spend(key, since, cost, events, window, c, d, state, same, kept)
  if cost == 0 then
    -- Only the ends that are too far ahead are mended, leases that are over stay.
    local leases, latest = {}, 0
    for at = 2, #state, 15 do
      local high, low, left = unpack('>I4I4I7', state, at)
      left = left - now
      if left > window then left = window end
      if left > latest then latest = left end
      leases[#leases + 1] = pack('>I4I4I7', high, low, now + left)
    end
    write(key, latest, since, kept, table.concat(leases), '>I4B', 1)
    return events - #leases, latest
  end
  local mine = pack('>I4I4I7', c, d, now + window)
  if same then
    write(key, window, since, kept, string.sub(state, 2) .. mine, '>I4B', 1)
    return events - (#state + 14) / 15, window
  end
  local leases, live = still(state, window, c, d)
  write(key, window, since, kept, leases .. mine, '>I4B', 1)
  return events - live - 1, window
end

i_peek, i_spend = peek, spend
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
  if algorithm == 119 then peek, spend = w_peek, w_spend
  elseif algorithm == 108 then peek, spend = l_peek, l_spend
  elseif algorithm == 99 then peek, spend = c_peek, c_spend
  elseif algorithm == 116 then peek, spend = t_peek, t_spend
  elseif algorithm == 102 then peek, spend = f_peek, f_spend
  elseif algorithm == 105 then peek, spend = i_peek, i_spend
  end
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
