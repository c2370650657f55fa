import { HOLD_FIELD, QUEUE_FIELD, script } from './script.ts'
import type { Script } from './script.ts'

// The scripts that know the queue of a lock: what takes a lock, gives it back, and hands it to the next.

/** Waiters that nobody has heard of for this long are forgotten. They poll four times as often. */
const QUEUE_TTL_MS = 120_000

/** So many learn of a claim that is none of theirs: one more than may be paused at the same time. */
const HEIRS = 2

/** What differs between a Cluster and a single server. */
interface Dialect {
  readonly publish: 'PUBLISH' | 'SPUBLISH'
  readonly countSubscribers: 'NUMSUB' | 'SHARDNUMSUB'
  /** Lua for the channel of a client's grants, but for the client. */
  readonly grants: string
}

const single: Dialect = { publish: 'PUBLISH', countSubscribers: 'NUMSUB', grants: `'locks_grants:'` }

/** A sharded channel is heard in its own slot only, so it is named like the queue. */
const sharded: Dialect = {
  publish: 'SPUBLISH',
  countSubscribers: 'SHARDNUMSUB',
  grants: `'locks_grants' .. string.sub(queue, ${'locks_queue'.length + 1}) .. ':'`,
}

/** Time is the server's in µs: sixteen digits until the year 2286, so that texts compare like numbers. */
const clock = `
local t = redis.call('TIME')
local now = t[1] .. string.sub('00000' .. t[2], -6)
`

/** A fence is at least the time, so that it also rises after the counter was lost. */
const mint = `
local fence = now
local last = redis.call('SET', token, now, 'GET')
if last and (#last > #now or (#last == #now and last >= now)) then
  fence = string.format('%.0f', last + 1)
  redis.call('SET', token, fence)
end
`

const hold = `fence .. (fence == now and ';;' or ';' .. now .. ';') .. about`

/**
 * A free lock goes to the first waiter whose client still listens here; the others are dead. That is asked
 * before anything is told: what nobody receives here still reaches whoever listens to a replica, as after a failover,
 * and must not be taken for a grant. Stops when it comes to `own`, which is the caller. Those who come after
 * the new holder are told when its claim ends: should it be left unused, by a paused process, they look then.
 */
const handOver = ({ publish, countSubscribers, grants }: Dialect): string => `
local grants = ${grants}
local function mint()
  ${mint}
  return fence
end
local function give(attempt, about, lifeMs, fence)
  redis.call('HSET', lock, attempt, '1', '${HOLD_FIELD}', ${hold})
  if redis.call('EXISTS', queue) == 1 then redis.call('HSET', lock, '${QUEUE_FIELD}', 1) end
  redis.call('PEXPIRE', lock, lifeMs)
end
local function channelOf(member)
  return grants .. string.match(member, '^[^: ]*')
end
local function listens(member)
  return redis.call('PUBSUB', '${countSubscribers}', channelOf(member))[2] > 0
end
local function tell(member, what)
  redis.call('${publish}', channelOf(member), string.match(member, '^%S+') .. what)
end
local function tellHeirs(what)
  for _, heir in ipairs(redis.call('ZRANGE', queue, 0, ${HEIRS - 1})) do tell(heir, what) end
end
local function handOver(own)
  while true do
    local member = redis.call('ZPOPMIN', queue)[1]
    if not member or member == own then return nil end
    if listens(member) then
      local attempt, claimMs, delayMs, about = string.match(member, '^(%S+) (%d+) (%d+) (.*)$')
      local fence = mint()
      give(attempt, about, claimMs + delayMs, fence)
      tell(member, ' ' .. fence .. ' ' .. now .. ' ' .. claimMs .. ' ' .. lock)
      tellHeirs(' ' .. claimMs + delayMs)
      return member
    end
  end
end
`

/** Without waiters, which is what counts, it makes five calls and no function, and writes out no number. */
const acquire = (dialect: Dialect): string => `
local lock, token, queue, attempt, lifeMs, about = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
${clock}
if redis.call('EXISTS', lock, queue) == 0 then
  ${mint}
  redis.call('HSET', lock, attempt, '1', '${HOLD_FIELD}', ${hold})
  redis.call('PEXPIRE', lock, lifeMs)
  return fence
end
${handOver(dialect)}
local delayMs, claimMs, own = ARGV[4] or '0', ARGV[5], nil
if claimMs then own = attempt .. ' ' .. claimMs .. ' ' .. delayMs .. ' ' .. about end
local fields = redis.call('HGETALL', lock)
if #fields == 0 then
  if not handOver(own) then
    local fence = mint()
    give(attempt, about, lifeMs, fence)
    return fence
  end
  fields = redis.call('HGETALL', lock)
end
local mine, fence, queued
for i = 1, #fields, 2 do
  if fields[i] == attempt then mine = true end
  if fields[i] == '${QUEUE_FIELD}' then queued = true end
  if fields[i] == '${HOLD_FIELD}' then fence = string.match(fields[i + 1], '^%d+') end
end
local leftMs = redis.call('PTTL', lock)
if mine and leftMs > tonumber(delayMs) then
  if leftMs < tonumber(lifeMs) then redis.call('PEXPIRE', lock, lifeMs) end
  return fence
end
local place = -1
if own and listens(own) then
  if not redis.call('ZSCORE', queue, own) then
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    local score = now
    if last and tonumber(last) >= tonumber(now) then score = last + 1 end
    redis.call('ZADD', queue, score, own)
  end
  redis.call('PEXPIRE', queue, ${QUEUE_TTL_MS})
  if fence and not queued then redis.call('HSET', lock, '${QUEUE_FIELD}', 1) end
  place = redis.call('ZRANK', queue, own)
end
return { leftMs, place, now, unpack(fields) }
`

/**
 * The lock goes on from its holder, whom it is known to be. Redisson's waiters know no queue: where some listen, about
 * every other time it is left free for them.
 */
const letGo = (dialect: Dialect, mayBeQueued: string): string => `
redis.call('DEL', lock)
local theirs = 'redisson_lock__channel' .. string.sub(token, ${'redisson_lock_token'.length + 1})
if ${mayBeQueued} and redis.call('EXISTS', queue) == 1 then
  ${clock}
  ${handOver(dialect)}
  if t[2] % 2 == 0 and redis.call('PUBSUB', '${dialect.countSubscribers}', theirs)[2] > 0 then
    redis.call('${dialect.publish}', theirs, '0')
    local head = redis.call('ZRANGE', queue, 0, 0)[1]
    while head and not listens(head) do
      redis.call('ZREM', queue, head)
      head = redis.call('ZRANGE', queue, 0, 0)[1]
    end
    tellHeirs('')
    return 0
  end
  if handOver() then return 0 end
end
redis.call('${dialect.publish}', theirs, '0')
return 0
`

/**
 * A release of Redisson's, one that leaves the lock to Redisson, and the end of a claim wake only the first in the queue:
 * when one of those leaves, whoever comes first then is told to look, at once or when the present hold ends.
 */
const free = (dialect: Dialect): string => `
local lock, token, queue, attempt, member = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local place = member and redis.call('ZRANK', queue, member)
if place then redis.call('ZREM', queue, member) end
local held = redis.call('HMGET', lock, attempt, '${QUEUE_FIELD}')
if not held[1] then
  if place and place < ${HEIRS} then
    ${handOver(dialect)}
    local ours = redis.call('HEXISTS', lock, '${HOLD_FIELD}') == 1
    tellHeirs(' ' .. (ours and redis.call('PTTL', lock) or 0) + 1)
  end
  return redis.call('EXISTS', lock)
end
${letGo(dialect, 'held[2]')}
`

const end = (dialect: Dialect): string => `
local lock, token, queue, fence, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local held = redis.call('HMGET', lock, '${HOLD_FIELD}', owner)
if fence ~= string.match(held[1] or '', '^%d*') or (fence == '' and not held[2]) then return 1 end
${letGo(dialect, 'true')}
`

/** The scripts that hand locks over. */
export interface Scripts {
  /**
   * KEYS lock, token, queue. ARGV attempt, life in ms, about; then, unless 0, lock-delay in ms, and to be
   * enqueued the claim in ms. Answers the fence, or [remaining ms, place in the queue or -1, time in µs, fields
   * of the lock …].
   */
  readonly acquire: Script
  /**
   * KEYS lock, token, queue. ARGV attempt, and the member to take out of the queue if there is one.
   * Answers 0 when the lock is no longer the attempt's, 1 when somebody else holds it.
   */
  readonly free: Script
  /**
   * KEYS lock, token, queue. ARGV fence of the hold to end or '', and else which of Redisson's fields has it.
   * Answers 0 when it was ended, 1 when it is over.
   */
  readonly end: Script
}

export const scriptsOf = (cluster: boolean): Scripts => (cluster ? onCluster : onServer)

const speak = (dialect: Dialect): Scripts => ({
  acquire: script(acquire(dialect)),
  free: script(free(dialect)),
  end: script(end(dialect)),
})

const onServer: Scripts = speak(single)
const onCluster: Scripts = speak(sharded)
