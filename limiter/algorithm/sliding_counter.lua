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

-- adjust: what is given back is taken from the window that was charged, if it still counts.
local function adjust(key, since, delta, spent, events, window)
  local start, current, previous, kept = read_counter(key, window)
  local back = math.max(-delta, 0)
  if delta > 0 then
    current = math.max(current, math.min(current + delta, events))
  elseif spent == 0 then
    local part = math.min(back, current)
    current = current - part
    previous = previous - math.min(back - part, previous)
  elseif spent >= start then
    current = current - math.min(back, current)
  elseif spent >= start - window then
    previous = previous - math.min(back, previous)
  end
  if current == 0 and previous == 0 then return call('DEL', key) end
  local reset = until_fresh(start, current, previous, window)
  write(key, reset, since, kept, '', '>I4BI7I4I4', 1, start, current, previous)
end
