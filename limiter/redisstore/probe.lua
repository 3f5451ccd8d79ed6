-- probe: which of the commands that scripts use are refused to this user.
-- KEYS: one that nobody uses; it is left as it was, absent.
-- Returns what was refused, and why, for each command.

local key, refused = KEYS[1], {}

local function try(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then
    refused[#refused + 1] = name
    refused[#refused + 1] = reply.err
  end
end

try('TIME')
try('GET', key)
try('STRLEN', key)
try('GETRANGE', key, '0', '7')
try('SET', key, '', 'PX', '1000')
try('SETRANGE', key, '0', 'x')
try('PEXPIRE', key, '1000')
try('DEL', key)
return refused
