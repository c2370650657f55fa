import { createHash } from 'node:crypto'

/** A Lua script and the hash it is called by. */
export interface Script {
  readonly text: string
  readonly sha: string
}

function script(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** In the hash of the lock, beside Redisson's field of the holder: `fence;since in µs;JSON about the holder`. */
export const ABOUT_FIELD = 'locks'

/** Waiters that nobody has heard of for this long are forgotten. They poll four times as often. */
const QUEUE_TTL_MS = 120_000

/** So many learn of a claim that is none of theirs: one more than may be paused at the same time. */
const HEIRS = 2

/**
 * `now` is the server's time in µs, exact in a double until the year 2255. A fence is at least that,
 * so that it also rises after the counter was lost.
 */
const grants = `
local lock, token, queue = KEYS[1], KEYS[2], KEYS[3]
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
local function digits(n)
  return string.format('%.0f', n)
end
local function mint(now)
  local fence = digits(now)
  local last = redis.call('SET', token, fence, 'GET')
  if last and tonumber(last) >= now then
    fence = digits(last + 1)
    redis.call('SET', token, fence)
  end
  return fence
end
local function give(attempt, about, lifeMs, fence, now)
  redis.call('HSET', lock, attempt, 1, '${ABOUT_FIELD}', fence .. ';' .. digits(now) .. ';' .. about)
  redis.call('PEXPIRE', lock, lifeMs)
end
`

/**
 * A free lock goes to the first waiter whose client still listens: a message that nobody receives
 * was for a dead one. Stops when it comes to `own`, which is the caller. A fence that no holder has
 * seen is used for the next. Those who come after it are told when the claim ends: should it be left
 * unused, by a paused process, they look then.
 */
const handOver = `
local function tell(publish, channel, member, what)
  return redis.call(publish, channel .. string.match(member, '^[^: ]*'), what)
end
local function handOver(now, publish, channel, own)
  local fence
  while true do
    local member = redis.call('ZPOPMIN', queue)[1]
    if not member or member == own then return nil, fence end
    local attempt, claimMs, delayMs, about = string.match(member, '^(%S+) (%d+) (%d+) (.*)$')
    fence = fence or mint(now)
    local grant = attempt .. ' ' .. fence .. ' ' .. digits(now) .. ' ' .. claimMs .. ' ' .. lock
    if tell(publish, channel, member, grant) > 0 then
      give(attempt, about, claimMs + delayMs, fence, now)
      for _, heir in ipairs(redis.call('ZRANGE', queue, 0, ${HEIRS - 1})) do
        tell(publish, channel, heir, string.match(heir, '^%S+') .. ' ' .. claimMs + delayMs)
      end
      return member, fence
    end
  end
end
`

/**
 * KEYS lock, token, queue. ARGV attempt, life in ms, lock-delay in ms, about, member of the queue or '',
 * publish command, channel of grants, '1' to enqueue.
 * Answers the fence, or [remaining ms, place in the queue or -1, time in µs, fields of the lock …].
 */
export const acquire: Script = script(`${grants}
local attempt, lifeMs, delayMs, about, own = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local now = clock()
if redis.call('EXISTS', lock, queue) == 0 then
  local fence = mint(now)
  give(attempt, about, lifeMs, fence, now)
  return fence
end
${handOver}
local fields = redis.call('HGETALL', lock)
if #fields == 0 then
  local taker, fence = handOver(now, ARGV[6], ARGV[7], own)
  if not taker then
    fence = fence or mint(now)
    give(attempt, about, lifeMs, fence, now)
    return fence
  end
  fields = redis.call('HGETALL', lock)
end
local mine, fence
for i = 1, #fields, 2 do
  if fields[i] == attempt then mine = true end
  if fields[i] == '${ABOUT_FIELD}' then fence = string.match(fields[i + 1], '^%d+') end
end
local leftMs = redis.call('PTTL', lock)
if mine and leftMs > delayMs then
  redis.call('PEXPIRE', lock, lifeMs)
  return fence
end
local place = -1
if ARGV[8] == '1' then
  if not redis.call('ZSCORE', queue, own) then
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    local score = now
    if last and tonumber(last) >= now then score = last + 1 end
    redis.call('ZADD', queue, digits(score), own)
  end
  redis.call('PEXPIRE', queue, ${QUEUE_TTL_MS})
  place = redis.call('ZRANK', queue, own)
end
return { leftMs, place, digits(now), unpack(fields) }
`)

/**
 * KEYS lock, token, queue. ARGV attempt, member to take out of the queue or '', publish command, channel
 * of grants, Redisson's channel, subcommand that counts subscribers.
 * Answers 0 when the lock is no longer the attempt's, 1 when somebody else holds it.
 *
 * Redisson's waiters know no queue. Where some listen, every other release on average leaves the lock
 * free for them, and only nudges the first in the queue.
 */
export const free: Script = script(`${grants}
local attempt, member, publish, channel, theirs = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if member ~= '' then redis.call('ZREM', queue, member) end
if redis.call('HEXISTS', lock, attempt) == 0 then return redis.call('EXISTS', lock) end
redis.call('DEL', lock)
if redis.call('EXISTS', queue) == 1 then
  ${handOver}
  local now = clock()
  if now % 2 == 0 and redis.call('PUBSUB', ARGV[6], theirs)[2] > 0 then
    redis.call(publish, theirs, '0')
    local head = redis.call('ZRANGE', queue, 0, 0)[1]
    while head and tell(publish, channel, head, string.match(head, '^%S+')) == 0 do
      redis.call('ZREM', queue, head)
      head = redis.call('ZRANGE', queue, 0, 0)[1]
    end
    return 0
  end
  if handOver(now, publish, channel) then return 0 end
end
redis.call(publish, theirs, '0')
return 0
`)

/**
 * KEYS one lock each. ARGV for each: attempt, life in ms, lock-delay in ms.
 * Answers for each 1 renewed, 0 lost, -1 unknown.
 */
export const renew: Script = script(`
local outcomes = {}
for i, lock in ipairs(KEYS) do
  local attempt, lifeMs, delayMs = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local held = redis.pcall('HEXISTS', lock, attempt)
  if type(held) == 'table' then
    outcomes[i] = -1
  elseif held == 1 and (delayMs == '0' or redis.call('PTTL', lock) > tonumber(delayMs)) then
    redis.call('PEXPIRE', lock, lifeMs)
    outcomes[i] = 1
  else
    outcomes[i] = 0
  end
end
return outcomes
`)

/** KEYS lock. ARGV from, to, life in ms, lock-delay in ms, about. Answers the fence, or 0 when neither holds it. */
export const adopt: Script = script(`
local lock, from, to = KEYS[1], ARGV[1], ARGV[2]
local held = redis.call('HEXISTS', lock, from) + redis.call('HEXISTS', lock, to)
if held == 0 or redis.call('PTTL', lock) <= tonumber(ARGV[4]) then return 0 end
local fence, since = string.match(redis.call('HGET', lock, '${ABOUT_FIELD}'), '^(%d+);(%d+);')
redis.call('HDEL', lock, from)
redis.call('HSET', lock, to, 1, '${ABOUT_FIELD}', fence .. ';' .. since .. ';' .. ARGV[5])
redis.call('PEXPIRE', lock, ARGV[3])
return fence
`)

/** KEYS lock, queue. Answers [remaining ms, waiters, fields of the lock …]. Changes nothing. */
export const inspect: Script = script(`
return { redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]), unpack(redis.call('HGETALL', KEYS[1])) }
`)

/**
 * KEYS lock, token. ARGV attempt, fence. Where the attempt still holds the lock, makes the fence its own
 * and every later one higher. Answers 1, or 0 when it does not hold it.
 */
export const raise: Script = script(`
local lock, token, fence = KEYS[1], KEYS[2], ARGV[2]
if redis.call('HEXISTS', lock, ARGV[1]) == 0 then return 0 end
local last = redis.call('GET', token)
if not last or tonumber(last) < tonumber(fence) then redis.call('SET', token, fence) end
local about = string.match(redis.call('HGET', lock, '${ABOUT_FIELD}'), '^%d+(.*)$')
redis.call('HSET', lock, '${ABOUT_FIELD}', fence .. about)
return 1
`)

/**
 * KEYS highest fence seen, keys of the command. ARGV fence, command and its arguments, or the fence alone.
 * Answers 0 when a higher fence was seen, else [the command's reply]. Fences are compared as texts:
 * they may be larger than a double is exact.
 */
export const guarded: Script = script(`
local fence = ARGV[1]
local seen = redis.call('GET', KEYS[1])
if seen and (#seen > #fence or (#seen == #fence and seen > fence)) then return 0 end
if seen ~= fence then redis.call('SET', KEYS[1], fence) end
if #ARGV == 1 then return { 'OK' } end
return { redis.call(unpack(ARGV, 2)) }
`)
