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

-- adjust: events are given back one by one, those of the step that spent them.
local function adjust(key, since, delta, spent, events, window)
  local base, size, next, live, kept = read_ring(key, events, window)
  if delta > 0 then
    return spend(key, since, math.min(delta, events), events, window, 0, 0, base, size, next, live, kept)
  end
  if spent == 0 then live = math.max(live + delta, 0) end
  if live == 0 then return call('DEL', key) end
  local ring, count = lay(key, base, size, next, live, events)
  if spent > 0 then
    local first = 0
    while first < count and unpack('>I7', ring, first * 7 + 1) < spent do first = first + 1 end
    local last = first
    -- Of what is given back, as much as was above the limit frees nothing.
    while last < count and last - first < -delta - live + count and unpack('>I7', ring, last * 7 + 1) == spent do
      last = last + 1
    end
    ring, count = string.sub(ring, 1, first * 7) .. string.sub(ring, last * 7 + 1), count - last + first
  end
  if count == 0 then return call('DEL', key) end
  local reset = unpack('>I7', ring, count * 7 - 6) - now + window
  write(key, reset, since, kept, ring, '>I4BI4I4I4', 1, events, count % events, count)
end
