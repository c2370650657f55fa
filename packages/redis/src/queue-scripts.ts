import {
  clock,
  ENTRY,
  headOf,
  HOLD_FIELD,
  isAttempt,
  isEntry,
  QUEUE_FIELD,
  readLock,
  readToken,
  refused,
  setToken,
} from './lua.ts'
import { script } from './script.ts'
import type { Script } from './script.ts'

// The scripts with a queue: they acquire a lock, release it, and hand it off to the next waiter.

/** A queue without a sign of its waiters is dropped after this long. Waiters ask four times as often. */
const QUEUE_TTL_MS = 120_000

/** How many waiters get a hint when the claim of another ends: one more than may be paused at the same time. */
const HINTED = 2

/** What differs between a Cluster and a single server, and between clients. */
interface Dialect extends Server {
  /** Time without a grant after which the fence of a name expires. 0: never. */
  readonly fenceIdleMs: number
}

interface Server {
  readonly publish: 'PUBLISH' | 'SPUBLISH'
  readonly countSubscribers: 'NUMSUB' | 'SHARDNUMSUB'
  /** Lua for the channel of a client's grants, without the client id. */
  readonly grants: string
}

const single: Server = { publish: 'PUBLISH', countSubscribers: 'NUMSUB', grants: `'locks_grants:'` }

/** A sharded channel exists in its slot only, so it is named like the queue. */
const sharded: Server = {
  publish: 'SPUBLISH',
  countSubscribers: 'SHARDNUMSUB',
  grants: `'locks_grants' .. string.sub(queue, ${'locks_queue'.length + 1}) .. ':'`,
}

/**
 * In: token, now. Out: `fence`, at least the time, so that it also rises after the counter was lost. Writes nothing if
 * the key is not our counter. The counter expires once the clock is past its fence by the idle time: the next fence,
 * which is the time then, is above it.
 */
const mint = (fenceIdleMs: number, otherwise: string): string => `
${readToken}
if wrong then ${otherwise} end
local fence = now
if last and (#last > #now or (#last == #now and last >= now)) then
  fence = string.format('%.0f', last + 1)
  ${setToken('fence', fenceIdleMs)}
else
  redis.call('SET', token, fence${fenceIdleMs === 0 ? '' : `, 'PX', '${fenceIdleMs}'`})
end
`

/** In: token. The channel on which Redisson publishes a release. */
const redissonChannel = `'redisson_lock__channel' .. string.sub(token, ${'redisson_lock_token'.length + 1})`

/** In: fence, now, about. The value of `HOLD_FIELD`. */
const hold = `fence .. (fence == now and ';;' or ';' .. now .. ';') .. about`

/**
 * In: lock, token, queue, now, headOf. Out: `mint()`, `give(…)`, `listens(member)`, `hintNext(what)` and
 * `handOff(own, fence)`, which gives the free lock to the first waiter whose client is subscribed here, and returns its
 * entry. Waiters without a subscription are dropped. The subscription is checked before publishing: a message that no
 * client receives here may reach one that is subscribed to a replica, as after a failover, and must not be a grant.
 * It returns nil when it comes to `own`, the entry of the caller. The next waiters get a hint when the claim ends: if a
 * paused process leaves it unused, they look then. Anyone may publish, so a grant ends with a proof: a hash keyed with
 * the secret of the waiter's entry, nested so that a text cannot be extended. Hints have none and only cause a look.
 */
const handOff = ({ publish, countSubscribers, grants, fenceIdleMs }: Dialect): string => `
local grants = ${grants}
local function mint()
  ${mint(fenceIdleMs, 'return nil, wrong')}
  return fence
end
local function give(attempt, about, lifeMs, fence)
  redis.call('HSET', lock, attempt, '1', '${HOLD_FIELD}', ${hold})
  if redis.call('EXISTS', queue) == 1 then redis.call('HSET', lock, '${QUEUE_FIELD}', 1) end
  redis.call('PEXPIRE', lock, lifeMs)
end
local function channelOf(member)
  return grants .. string.sub(member, 1, 36)
end
local function listens(member)
  return redis.call('PUBSUB', '${countSubscribers}', channelOf(member))[2] > 0
end
local function hintNext(what)
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, ${HINTED - 1})) do
    if ${isEntry('member')} then redis.call('${publish}', channelOf(member), string.match(member, '^%S+') .. what) end
  end
end
local function handOff(own, fence)
  while true do
    local member = headOf(queue)
    if not member then return nil end
    redis.call('ZREM', queue, member)
    if member == own then return nil end
    if listens(member) then
      local attempt, claimMs, delayMs, secret, about = string.match(member, '${ENTRY}')
      give(attempt, about, claimMs + delayMs, fence)
      local text = attempt .. ' ' .. fence .. ' ' .. now .. ' ' .. claimMs .. ' ' .. lock
      local proof = redis.sha1hex(secret .. redis.sha1hex(secret .. text))
      redis.call('${publish}', channelOf(member), text .. ' ' .. proof)
      hintNext(' ' .. claimMs + delayMs)
      return member
    end
  end
end
`

/** The uncontended case makes six calls, creates no function and formats no number. */
const acquire = (dialect: Dialect): string => `
local lock, token, queue, attempt, lifeMs, about = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
if not ${isAttempt('attempt')} then return { 'refused', 'attempt', lock } end
${clock}
if redis.call('EXISTS', lock, queue) == 0 then
  ${mint(dialect.fenceIdleMs, `return { 'refused', wrong, token, redis.call('TYPE', token).ok }`)}
  redis.call('HSET', lock, attempt, '1', '${HOLD_FIELD}', ${hold})
  redis.call('PEXPIRE', lock, lifeMs)
  return fence
end
${refused}
${readLock}
${headOf}
${handOff(dialect)}
local delayMs, claimMs, own = ARGV[4] or '0', ARGV[5], nil
if claimMs then own = attempt .. ' ' .. claimMs .. ' ' .. delayMs .. ' ' .. ARGV[6] .. ' ' .. about end
local fields, holder, fence, _, queued = readLock(lock)
if not fields then return refused('foreign', lock) end
if headOf(queue) == nil then return refused('foreign', queue) end
local leftMs = redis.call('PTTL', lock)
if holder == attempt and leftMs > tonumber(delayMs) then
  if leftMs < tonumber(lifeMs) then redis.call('PEXPIRE', lock, lifeMs) end
  return fence
end
-- Its own hold that is over was never answered, or it would not ask again: no client acts under it.
if not holder or (holder == attempt and fence) then
  local wrong
  fence, wrong = mint()
  if not fence then return refused(wrong, token) end
  if holder or not handOff(own, fence) then
    give(attempt, about, lifeMs, fence)
    return fence
  end
  fields, holder, fence, _, queued = readLock(lock)
  leftMs = redis.call('PTTL', lock)
end
local position = -1
if own and listens(own) then
  if not redis.call('ZSCORE', queue, own) then
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    local score = now
    if last and tonumber(last) >= tonumber(now) then score = last + 1 end
    redis.call('ZADD', queue, score, own)
  end
  redis.call('PEXPIRE', queue, ${QUEUE_TTL_MS})
  if fence and not queued then redis.call('HSET', lock, '${QUEUE_FIELD}', 1) end
  position = redis.call('ZRANK', queue, own)
end
return { leftMs, position, now, unpack(fields) }
`

/**
 * In: lock, token, queue, attempt, headOf. Ends the hold of `attempt` and the script. Removes its own fields only: if
 * there are others by now, they stay, and so does the key. If nothing can be granted, the next waiters look and learn
 * why. Redisson's waiters have no queue: if some are subscribed, every other release leaves the lock free for them.
 */
const endHold = (dialect: Dialect, mayBeQueued: string): string => `
redis.call('HDEL', lock, attempt, '${HOLD_FIELD}', '${QUEUE_FIELD}')
local theirs = ${redissonChannel}
if ${mayBeQueued} and headOf(queue) then
  ${clock}
  ${handOff(dialect)}
  if redis.call('EXISTS', lock) == 1 then
    hintNext('')
    return 0
  end
  if t[2] % 2 == 0 and redis.call('PUBSUB', '${dialect.countSubscribers}', theirs)[2] > 0 then
    redis.call('${dialect.publish}', theirs, '0')
    local head = headOf(queue)
    while head and not listens(head) do
      redis.call('ZREM', queue, head)
      head = headOf(queue)
    end
    hintNext('')
    return 0
  end
  local fence = mint()
  if not fence then hintNext('') elseif handOff(nil, fence) then return 0 end
end
redis.call('${dialect.publish}', theirs, '0')
return 0
`

/**
 * A release by Redisson, one that leaves the lock to Redisson, and the end of a claim wake only the first waiters: if
 * one of those leaves, the next get a hint to look, at once or when the present hold ends.
 */
const release = (dialect: Dialect): string => `
local lock, token, queue, attempt, member = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
${headOf}
local position = member and redis.pcall('ZRANK', queue, member)
if type(position) == 'number' then redis.call('ZREM', queue, member) else position = nil end
local held = redis.pcall('HMGET', lock, attempt, '${QUEUE_FIELD}')
if held.err and not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
if held.err or not held[1] or not ${isAttempt('attempt')} then
  if position and position < ${HINTED} then
    ${clock}
    ${handOff(dialect)}
    local ours = redis.pcall('HEXISTS', lock, '${HOLD_FIELD}') == 1
    hintNext(' ' .. (ours and redis.call('PTTL', lock) or 0) + 1)
  end
  return 1
end
${endHold(dialect, 'held[2]')}
`

/**
 * The hold goes on under an id that no attempt has, and ends after the given time. The first waiters look then;
 * subscribers of Redisson's channel look now and see how long it takes.
 */
const keep = (dialect: Dialect): string => `
local lock, token, queue, attempt, kept, keepMs = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3]
local held = redis.pcall('HMGET', lock, attempt, kept, '${QUEUE_FIELD}')
if held.err and not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
if held.err or not ${isAttempt('attempt')} or not ${isAttempt('kept')} then return 1 end
if held[2] then return 0 end
if not held[1] then return 1 end
redis.call('HSET', lock, kept, '1')
redis.call('HDEL', lock, attempt)
redis.call('PEXPIRE', lock, keepMs)
if held[3] then
  ${headOf}
  ${clock}
  ${handOff(dialect)}
  if headOf(queue) then hintNext(' ' .. keepMs) end
end
redis.call('${dialect.publish}', ${redissonChannel}, '0')
return 0
`

const breakHold = (dialect: Dialect): string => `
local lock, token, queue, fence, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
${refused}
${readLock}
${headOf}
local fields, attempt, minted = readLock(lock)
if not fields then return refused('foreign', lock) end
if not attempt or fence ~= (minted or '') or (fence == '' and attempt ~= owner) then return 1 end
${endHold(dialect, 'true')}
`

/** The scripts that hand locks off. */
export interface Scripts {
  /**
   * KEYS lock, token, queue. ARGV attempt, ttl with lock-delay in ms, about; then lock-delay in ms unless it is 0, and
   * to be enqueued the claim in ms and the secret of the entry. Returns the fence, or [remaining ms, position in the
   * queue or -1, time in µs, fields of the lock …].
   */
  readonly acquire: Script
  /**
   * KEYS lock, token, queue. ARGV attempt, and the entry to take out of the queue, if any.
   * Returns 0 if this call ended the hold of the attempt, 1 if it did not hold the lock.
   */
  readonly release: Script
  /**
   * KEYS lock, token, queue. ARGV attempt, the id that keeps the lock in its place, for how many ms. Returns 0 if the
   * lock is kept, by this call or an earlier one, 1 if the attempt did not hold it.
   */
  readonly keep: Script
  /**
   * KEYS lock, token, queue. ARGV fence of the hold, or '' and Redisson's holder field.
   * Returns 0 if this call ended the hold, 1 if it is over.
   */
  readonly break: Script
}

const made = new Map<string, Scripts>()

/** The idle time is part of the text of the scripts, where it costs a call nothing. */
export function scriptsOf(cluster: boolean, fenceIdleMs: number): Scripts {
  const key = `${cluster} ${fenceIdleMs}`
  let scripts = made.get(key)
  if (scripts === undefined)
    made.set(key, (scripts = scriptsIn({ ...(cluster ? sharded : single), fenceIdleMs })))
  return scripts
}

const scriptsIn = (dialect: Dialect): Scripts => ({
  acquire: script(acquire(dialect)),
  release: script(release(dialect)),
  keep: script(keep(dialect)),
  break: script(breakHold(dialect)),
})
