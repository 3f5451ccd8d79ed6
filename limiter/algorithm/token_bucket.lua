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

-- adjust: what was spent before the bucket was last full has come back by itself.
local function adjust(key, since, delta, spent, events, span, burst)
  local used, part, busy, _, kept = read_bucket(key, events, span, burst)
  if delta > 0 then
    used = used + math.min(delta, burst)
    if used > burst then used, part = burst, 0 end
  elseif spent == 0 or spent >= busy then
    used = math.max(used + delta, 0)
  end
  if used == 0 then return call('DEL', key) end
  write_bucket(key, since, used, part, busy, kept, events, span)
end
