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
