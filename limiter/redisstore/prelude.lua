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
