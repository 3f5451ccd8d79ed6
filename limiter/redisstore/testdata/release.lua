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

-- write keeps a state for a second longer than it matters, which is reset microseconds; if
-- since is given, in an envelope.
local function write(key, state, reset, since)
  if since then state = pack('>BI7', 255, since) .. state end
  local ttl = math.ceil(reset / 1000) + 1000
  -- The server's own clock expires keys, whatever the time to go by.
  if ARGV[2] and ttl < 60000 then ttl = 60000 end
  call('SET', key, state, 'PX', string.format('%d', ttl))
end

-- in_flight: see in_flight.go. Its numbers are a = events, b = window_us, and c and d the two
-- halves of the lease's name.
-- State: version 1 | leases of 15: name 8, until 7.

local function read_leases(key)
  local state = call('GET', key) or ''
  if string.byte(state) == 255 then state = string.sub(state, 9) end
  if #state < 16 or (#state - 1) % 15 ~= 0 or string.byte(state) ~= 1 then return '' end
  return state
end

-- peek: a cost of 0 looks, whoever holds a lease.
local function peek(key, cost, events, window, c, d)
  local state = read_leases(key)
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
  return wait, events - live, latest, ahead, state
end

-- keep returns the leases that are not over and not of that name, how many they are, and in
-- how many microseconds the last of them ends.
local function keep(state, window, c, d)
  local kept, latest = {}, 0
  for at = 2, #state, 15 do
    local high, low, left = unpack('>I4I4I7', state, at)
    left = left - now
    if left > window then left = window end
    if left > 0 and not (high == c and low == d) then
      kept[#kept + 1] = pack('>I4I4I7', high, low, now + left)
      if left > latest then latest = left end
    end
  end
  return table.concat(kept), #kept, latest
end

local function spend(key, since, cost, events, window, c, d, state)
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
    write(key, '\1' .. table.concat(leases), latest, since)
    return events - #leases, latest
  end
  local leases, live = keep(state, window, c, d)
  write(key, '\1' .. leases .. pack('>I4I4I7', c, d, now + window), window, since)
  return events - live - 1, window
end

-- adjust: leases are given back by name, not by number.
local function adjust() end

-- release gives a lease back, and cuts those that are over.
local function release(key, window, c, d)
  local leases, live, latest = keep(read_leases(key), window, c, d)
  if live == 0 then return call('DEL', key) end
  write(key, '\1' .. leases, latest)
end

-- release: gives leases back.
-- KEYS: a key a lease. ARGV[1], a lease: window_us 7 | name 8.
-- Returns how many leases there were.

local leases = ARGV[1]

for i = 1, #KEYS do
  local window, c, d = unpack('>I7I4I4', leases, i * 15 - 14)
  release(KEYS[i], window, c, d)
end
return #KEYS
