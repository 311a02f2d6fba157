"""What runs inside the server, each as one atomic step: Redis executes nothing else meanwhile.

The keys of a store, all with one hash tag: 1 ``meta`` (a hash: format, specification, owner, epoch,
number of commits), 2 ``rows`` (a hash: key to value), 3 ``order`` (a sorted set of the keys, all
with score 0, which Redis then orders by their bytes, unsigned), 4 ``offsets``, 5 ``position``.

Every script of an owner names its epoch. Whoever opens the store raises it, so that nothing of an
earlier owner takes effect any more, not even what still waits in a socket.
"""

from statestores_redis.failures import FENCED, GONE

CHANGED = "CHANGED"
"""The error of `TAKE` when somebody else has taken the store in between."""

PAGE_ROWS = 1_000
PAGE_BYTES = 1 << 20
"""A page ends with the row that reaches one of them."""

_AT_ONCE = 1_000
"""How many arguments one call inside a script has; Lua can pass 8,000. Even: pairs stay whole."""

MAX_CHANGES = 500_000
"""How many keys a commit may change: Redis takes 1,048,576 arguments at a time."""

_OWNED = f"""
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch then return redis.error_reply('{GONE} the store') end
if epoch ~= ARGV[1] then return redis.error_reply('{FENCED} by epoch ' .. epoch) end
"""

TAKE = f"""
if (redis.call('HGET', KEYS[1], 'epoch') or '') ~= ARGV[1] then
    return redis.error_reply('{CHANGED} in between')
end
redis.call('HSET', KEYS[1],
    'format', ARGV[2], 'specification', ARGV[3], 'owner', ARGV[4], 'token', ARGV[5])
local epoch = redis.call('HINCRBY', KEYS[1], 'epoch', 1)
local commits = redis.call('HINCRBY', KEYS[1], 'commits', 0)
return {{
    epoch, commits, redis.call('HGETALL', KEYS[4]), redis.call('HGETALL', KEYS[5])
}}
"""
"""Become the owner. ARGV: the epoch that was seen or '', format, specification, owner,
and what no other opening has: its token."""

RECLAIM = f"""
local token = redis.call('HGET', KEYS[1], 'token')
if not token then return redis.error_reply('{GONE} the store') end
if token ~= ARGV[1] then return redis.error_reply('{FENCED} by another opening') end
redis.call('HSET', KEYS[1], 'owner', ARGV[2])
return {{redis.call('HINCRBY', KEYS[1], 'epoch', 1), redis.call('HGET', KEYS[1], 'commits')}}
"""
"""Go on as the owner over another connection; what the old one still holds is fenced. By the token,
since the answer of an earlier try may have been lost. ARGV: token, owner. Returns the new epoch,
and how many commits the store has."""

RELEASE = f"""{_OWNED}
return redis.call('HDEL', KEYS[1], 'owner')
"""

COMMIT = f"""{_OWNED}
local at = 6
local function in_turn(count, act)
    local stop = at + count
    while at < stop do
        local last = math.min(at + {_AT_ONCE} - 1, stop - 1)
        act(at, last)
        at = last + 1
    end
end
in_turn(tonumber(ARGV[2]), function (first, last)
    redis.call('HSET', KEYS[2], unpack(ARGV, first, last))
    local members = {{}}
    for place = first, last, 2 do
        members[#members + 1] = 0
        members[#members + 1] = ARGV[place]
    end
    redis.call('ZADD', KEYS[3], unpack(members))
end)
in_turn(tonumber(ARGV[3]), function (first, last)
    redis.call('HDEL', KEYS[2], unpack(ARGV, first, last))
    redis.call('ZREM', KEYS[3], unpack(ARGV, first, last))
end)
for number = 4, 5 do
    redis.call('DEL', KEYS[number])
    in_turn(tonumber(ARGV[number]), function (first, last)
        redis.call('HSET', KEYS[number], unpack(ARGV, first, last))
    end)
end
return redis.call('HINCRBY', KEYS[1], 'commits', 1)
"""
"""Write one commit. ARGV: epoch; how many arguments follow of puts, of deletions, of offsets and of
the position; puts as key and value, deleted keys, and the other two whole, as field and value."""

TRUNCATE = f"""{_OWNED}
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return redis.call('HINCRBY', KEYS[1], 'commits', 1)
"""

READ = f"""{_OWNED}
local found = {{}}
for at = 2, #ARGV do found[at - 1] = redis.call('HGET', KEYS[2], ARGV[at]) end
return found
"""
"""ARGV: epoch, keys. Returns their values."""

COUNT = f"""{_OWNED}
return redis.call('HLEN', KEYS[2])
"""

PAGE = f"""{_OWNED}
local keys
if ARGV[4] == '1' then
    keys = redis.call('ZRANGE', KEYS[3], ARGV[3], ARGV[2], 'BYLEX', 'REV', 'LIMIT', 0, {PAGE_ROWS})
else
    keys = redis.call('ZRANGE', KEYS[3], ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, {PAGE_ROWS})
end
local rows, size = {{}}, 0
for number, key in ipairs(keys) do
    local value = redis.call('HGET', KEYS[2], key)
    rows[2 * number - 1] = key
    rows[2 * number] = value
    size = size + #key + #value
    if size >= {PAGE_BYTES} then return {{rows, 0}} end
end
return {{rows, #keys < {PAGE_ROWS} and 1 or 0}}
"""
"""ARGV: epoch, lower and upper bound as of ZRANGE BYLEX, 1 for reverse. Returns keys and values in
turn, and 1 if nothing comes after them."""

EVERY = (TAKE, RECLAIM, RELEASE, COMMIT, TRUNCATE, READ, COUNT, PAGE)
