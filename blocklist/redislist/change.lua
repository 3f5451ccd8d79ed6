-- Makes one change of the shared block list, whole or not at all, and tells all who listen.
--
-- KEYS: rules and bans, hashes of text forms by name and ID, that of a ban behind its end in
-- milliseconds; the ends of rules and those of bans, sorted sets of names and IDs by when they can be
-- forgotten, in milliseconds; the state, a hash of version, mode and the line by which the list is known; the trail, a list of records, the
-- latest first.
--
-- ARGV: the channel; the record's head behind its version; 'auto' if the change leaves no record; the version
-- that the list must have, or ''; the least version that the change is to lead to; the line that the list must have,
-- or '*' for a change that is no gift; the line that it gets, unless it has one and this is no gift; the most rules, bans,
-- records and bytes of records; then six for each thing that the change does: word, ID, text or '' to take it out, the line that
-- would take it out, when it ends and when it can be forgotten, in milliseconds, 0 for never.
--
-- A gift is a part of a list that was lost: it puts only what is not there, and is made to the list with just
-- that line. The last one brings the line that says that all was given.
--
-- Returns the version that the change led to; or a table of a word and what it is about: denied, and the
-- commands that the user has no right to; again, and the version; missing, and the places of what is not
-- there; full, and how many rules there would be. A change of nothing that is no gift writes nothing: it asks for
-- the rights.

local rules, bans, rule_ends, ban_ends, state, trail = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local channel, head, auto, wanted, least = ARGV[1], ARGV[2], ARGV[3] == 'auto', ARGV[4], tonumber(ARGV[5])
local gift, line = ARGV[6] ~= '*', ARGV[7]
local most_rules, most_bans = tonumber(ARGV[8]), tonumber(ARGV[9])
local most_records, most_bytes = tonumber(ARGV[10]), tonumber(ARGV[11])
local first_op, op_size = 12, 6

-- A server takes back nothing of a script that fails half way. So nothing is written before all has been asked
-- that can fail: the rights (servers before 7.0 cannot be asked), and the types of all keys.
local denied = {'denied'}
local function need(...)
	if redis.acl_check_cmd and not redis.acl_check_cmd(...) then
		denied[#denied + 1] = (...)
	end
end
need('TIME')
need('HGET', state, 'version')
need('HLEN', rules)
need('HEXISTS', rules, 'x')
need('ZRANGEBYSCORE', rule_ends, '0', '0')
need('HSET', state, 'version', '1')
need('HDEL', rules, 'x')
need('ZADD', rule_ends, '1', 'x')
need('ZREM', rule_ends, 'x')
need('ZRANGE', ban_ends, '0', '0')
need('LPUSH', trail, 'x')
need('LTRIM', trail, '0', '-2')
need('LRANGE', trail, '0', '0')
need('PUBLISH', channel, 'x')
if #denied > 1 then
	return denied
end
redis.call('HLEN', bans)
redis.call('LRANGE', trail, 0, 0)

local version = tonumber(redis.call('HGET', state, 'version') or '0')
local old_line = redis.call('HGET', state, 'born') or ''
if wanted ~= '' and tonumber(wanted) ~= version or gift and ARGV[6] ~= old_line then
	return {'again', string.format('%.0f', version)}
end

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
-- What is over goes, a little with each change.
local function find(ends)
	local over = {ids = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 128)}
	for _, id in ipairs(over.ids) do
		over[' ' .. id] = true
	end
	return over
end
local rules_over, bans_over = find(rule_ends), find(ban_ends)

-- Once it has a line, only gifts give it another.
local new_line = (gift or old_line == '') and line or old_line

local missing, more = {'missing'}, 0
for i = first_op, #ARGV, op_size do
	local word, id, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
	if word ~= 'mode' then
		local over = (word == 'rule' and rules_over or bans_over)[' ' .. id]
		local there = not over and redis.call('HEXISTS', word == 'rule' and rules or bans, id) == 1
		if text == '' and not there then
			missing[#missing + 1] = string.format('%d', (i - first_op) / op_size)
		end
		if word == 'rule' then
			more = more + (text ~= '' and not there and 1 or text == '' and -1 or 0)
		end
	end
end
if #missing > 1 then
	return missing
end
local count = redis.call('HLEN', rules) - #rules_over.ids + more
if more > 0 and count > most_rules then
	return {'full', string.format('%d', count)}
end

if #ARGV < first_op and not gift then
	return string.format('%.0f', version)
end
local function sweep(hash, ends, over)
	for _, id in ipairs(over.ids) do
		redis.call('HDEL', hash, id)
		redis.call('ZREM', ends, id)
	end
end
sweep(rules, rule_ends, rules_over)
sweep(bans, ban_ends, bans_over)

local done, undo = {}, {}
local function put(hash, ends, id, value, forgotten)
	if value == '' then
		redis.call('HDEL', hash, id)
	else
		redis.call('HSET', hash, id, value)
	end
	if value == '' or forgotten == '0' then
		redis.call('ZREM', ends, id)
	else
		redis.call('ZADD', ends, forgotten, id)
	end
end
for i = first_op, #ARGV, op_size do
	local word, id, text, gone, ends, forgotten = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
	local old, skip
	if word == 'mode' then
		old = redis.call('HGET', state, 'mode')
		skip = gift and old
		old = old or 'enforce'
		if not skip then
			redis.call('HSET', state, 'mode', text)
		end
	elseif word == 'rule' then
		old = redis.call('HGET', rules, id)
		skip = gift and old
		if not skip then
			put(rules, rule_ends, id, text, forgotten)
		end
	else
		local value = redis.call('HGET', bans, id)
		local old_end
		if value then
			old_end, old = string.match(value, '^(%d+) (.*)$')
		end
		skip = value and (gift or auto and old_end and text ~= '' and tonumber(old_end) > tonumber(ends))
		if not skip then
			put(bans, ban_ends, id, text ~= '' and ends .. ' ' .. text or '', forgotten)
		end
	end
	if not skip then
		done[#done + 1] = text ~= '' and word .. ' ' .. text or gone
		undo[#undo + 1] = 'undo ' .. (old and word .. ' ' .. old or gone)
	end
end
if #done == 0 and new_line == old_line then
	return string.format('%.0f', version)
end

-- Of too many bans those go that can be forgotten first.
local excess = redis.call('HLEN', bans) - most_bans
if excess > 0 then
	for _, id in ipairs(redis.call('ZRANGE', ban_ends, 0, excess - 1)) do
		redis.call('HDEL', bans, id)
		redis.call('ZREM', ban_ends, id)
		done[#done + 1] = 'lift ' .. id
	end
end

version = string.format('%.0f', math.max(version + 1, least))
redis.call('HSET', state, 'version', version, 'born', new_line)
local text = 'change ' .. version .. ' ' .. head .. '\n' .. table.concat(done, '\n')
if not auto then
	local record = text .. '\n' .. table.concat(undo, '\n')
	-- The state remembers how long the trail is. Old versions did not: then it is measured once.
	local bytes = tonumber(redis.call('HGET', state, 'trail_bytes'))
	if not bytes then
		bytes = 0
		for _, old in ipairs(redis.call('LRANGE', trail, 0, -1)) do
			bytes = bytes + #old
		end
	end
	local records = redis.call('LPUSH', trail, record)
	bytes = #record + (records > 1 and bytes or 0)
	while records > most_records or bytes > most_bytes and records > 1 do
		bytes = bytes - #redis.call('LRANGE', trail, -1, -1)[1]
		redis.call('LTRIM', trail, 0, -2)
		records = records - 1
	end
	redis.call('HSET', state, 'trail_bytes', string.format('%.0f', bytes))
end
-- What is long is not told to everybody, but fetched, and so is a list with another line.
if #text > 65536 or gift and new_line ~= old_line then
	text = 'version ' .. version
end
redis.call('PUBLISH', channel, text)
return version
