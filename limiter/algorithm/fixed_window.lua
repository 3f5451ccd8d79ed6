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

-- adjust: at zero the window still keeps its end.
local function adjust(key, since, delta, spent, events, window)
  local start, count, left, _, kept = read_fixed(key, window)
  if delta > 0 then
    count = math.max(count, math.min(count + delta, events))
  elseif left == 0 then
    return call('DEL', key)
  elseif spent == 0 or spent >= start then
    count = math.max(count + delta, 0)
  end
  write(key, start - now + window, since, kept, '', '>I4BI7I4', 1, start, count)
end
