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
