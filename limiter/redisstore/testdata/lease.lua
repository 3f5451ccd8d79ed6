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

-- adjust: leases are given back by name, not by number.
local function adjust() end

-- lease gives leases of one state back, or renews them: then one that is not held is taken if
-- there is room. Their names, of 8 bytes, stand side by side. Leases that are over are cut.
local function lease(key, renew, events, window, names)
  local state, kept = read_leases(key)
  local held, pieces, from, live, latest = {}, {}, 2, 0, 0
  for at = 1, #names, 8 do held[string.sub(names, at, at + 7)] = false end
  for at = 2, #state, 15 do
    local left, name = unpack('>I7', state, at + 8) - now, string.sub(state, at, at + 7)
    local mine = held[name] ~= nil
    if left <= 0 or left > window or mine then
      pieces[#pieces + 1] = string.sub(state, from, at - 1)
      from = at + 15
      if left > window then left = window end
      if left > 0 and not mine then pieces[#pieces + 1] = name .. pack('>I7', now + left) end
    end
    if left > 0 then
      live = live + 1
      if mine then
        held[name] = true
      elseif left > latest then
        latest = left
      end
    end
  end
  pieces[#pieces + 1] = string.sub(state, from)
  if renew then
    local till = pack('>I7', now + window)
    for at = 1, #names, 8 do
      local name = string.sub(names, at, at + 7)
      if held[name] or live < events then
        if not held[name] then live = live + 1 end
        pieces[#pieces + 1] = name .. till
        latest = window
      end
    end
  end
  state = table.concat(pieces)
  if state == '' then return call('DEL', key) end
  write(key, latest, nil, kept, state, '>I4B', 1)
end

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
