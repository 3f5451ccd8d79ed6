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

-- adjust: whole marks are given back, so that it may be rounded down; never so that an event
-- counts for less time than it should.
local function adjust(key, since, delta, spent, events, window, k)
  local state, from, n, live, fill, _, _, skip = read_marked(key, events, window, k)
  if delta > 0 then
    return spend(key, since, math.min(delta, events), events, window, k, 0, state, from, n, live, fill)
  end
  -- Of what is given back, as much as was left out frees nothing.
  local times, back = {}, math.max(-delta - (skip or 0), 0)
  for i = 1, n do times[i] = unpack('>I6', state, from + i * 6 - 6) end

  local function cut(first, count)
    for _ = 1, count do table.remove(times, first) end
    live = live - count * k
  end
  -- shrink takes events off the newest end.
  local function shrink(count)
    live = math.max(live - count, 0)
    while #times > math.ceil(live / k) do table.remove(times) end
  end

  if spent == 0 then
    if n > 0 then
      local whole = math.min(math.floor(back / k), n - 1)
      cut(1, whole)
      if #times == 1 then shrink(back - whole * k) end
    end
  else
    local at = math.max(math.ceil((spent - now + elapsed) / 8), 0)
    local first = 1
    -- What has left its window by now is not given back a second time.
    if at <= (elapsed - window) / 8 then first = n + 1 end
    while first <= n and times[first] < at do first = first + 1 end
    local last = first
    while last <= n and times[last] == at do last = last + 1 end
    if first <= n then
      if last > n then
        -- All up to the newest event are of that time.
        shrink(math.min(back, (last - first - 1) * k + fill))
      elseif last > first then
        -- Later events follow, in marks that have to stay full.
        cut(first, math.min(math.floor(back / k), last - first))
      elseif first == n and k > 1 then
        -- Others came into the same mark later.
        shrink(math.min(back, fill))
      end
    end
  end
  n = #times
  if n == 0 then return call('DEL', key) end
  for i = 1, n do times[i] = pack('>I6', times[i]) end
  local reset = window - elapsed + unpack('>I6', times[n]) * 8
  local kept = unpack('>I4', state)
  write(key, reset, since, kept, table.concat(times), '>I4BI3I4', 1, k, live - (n - 1) * k)
end
