import { clock, ENTRY, headOf, isAttempt, isEntry, readLock, readToken, refused, setToken } from './lua.ts'
import { HOLD_FIELD, QUEUE_FIELD, script } from './script.ts'
import type { Script } from './script.ts'

// The scripts that know the queue of a lock: what takes a lock, gives it back, and hands it to the next.

/** Waiters that nobody has heard of for this long are forgotten. They poll four times as often. */
const QUEUE_TTL_MS = 120_000

/** So many learn of a claim that is none of theirs: one more than may be paused at the same time. */
const HEIRS = 2

/** What differs between a Cluster and a single server, and between clients. */
interface Dialect extends Server {
  /** After so long without a grant the fence of a name expires; 0 for never. */
  readonly fenceIdleMs: number
}

interface Server {
  readonly publish: 'PUBLISH' | 'SPUBLISH'
  readonly countSubscribers: 'NUMSUB' | 'SHARDNUMSUB'
  /** Lua for the channel of a client's grants, but for the client. */
  readonly grants: string
}

const single: Server = { publish: 'PUBLISH', countSubscribers: 'NUMSUB', grants: `'locks_grants:'` }

/** A sharded channel is heard in its own slot only, so it is named like the queue. */
const sharded: Server = {
  publish: 'SPUBLISH',
  countSubscribers: 'SHARDNUMSUB',
  grants: `'locks_grants' .. string.sub(queue, ${'locks_queue'.length + 1}) .. ':'`,
}

/**
 * A fence is at least the time, so that it also rises after the counter was lost. Nothing is written where the key
 * is not a counter of ours. The counter expires when the clock is past its fence by the idle time, so that the next
 * fence, which is the time then, is above it.
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

const hold = `fence .. (fence == now and ';;' or ';' .. now .. ';') .. about`

/**
 * A free lock goes to the first waiter whose client still listens here; the others are dead. That is asked
 * before anything is told: what nobody receives here still reaches whoever listens to a replica, as after a failover,
 * and must not be taken for a grant. Stops when it comes to `own`, which is the caller. Those who come after
 * the new holder are told when its claim ends: should it be left unused, by a paused process, they look then.
 * Anyone may publish, so a grant ends with a proof: a hash keyed with the secret of the waiter's entry, nested so that
 * a text cannot be made longer. Hints have none, and are worth a look at most.
 */
const handOver = ({ publish, countSubscribers, grants, fenceIdleMs }: Dialect): string => `
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
local function tellHeirs(what)
  for _, heir in ipairs(redis.call('ZRANGE', queue, 0, ${HEIRS - 1})) do
    if ${isEntry('heir')} then redis.call('${publish}', channelOf(heir), string.match(heir, '^%S+') .. what) end
  end
end
local function handOver(own, fence)
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
      tellHeirs(' ' .. claimMs + delayMs)
      return member
    end
  end
end
`

/** Without waiters, which is what counts, it makes six calls and no function, and writes out no number. */
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
${handOver(dialect)}
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
-- Its own hold that is over by now was never answered, or it would not ask again: nobody acts under it.
if not holder or (holder == attempt and fence) then
  local wrong
  fence, wrong = mint()
  if not fence then return refused(wrong, token) end
  if holder or not handOver(own, fence) then
    give(attempt, about, lifeMs, fence)
    return fence
  end
  fields, holder, fence, _, queued = readLock(lock)
  leftMs = redis.call('PTTL', lock)
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
 * The lock goes on from `attempt`, which holds it. Only its own fields are removed: should others be there by now, they
 * stay, and so does the key. Where nothing can be granted, the next waiters look and learn why. Redisson's waiters
 * know no queue: where some listen, about every other time the lock is left free for them.
 */
const letGo = (dialect: Dialect, mayBeQueued: string): string => `
redis.call('HDEL', lock, attempt, '${HOLD_FIELD}', '${QUEUE_FIELD}')
local theirs = 'redisson_lock__channel' .. string.sub(token, ${'redisson_lock_token'.length + 1})
if ${mayBeQueued} and headOf(queue) then
  ${clock}
  ${handOver(dialect)}
  if redis.call('EXISTS', lock) == 1 then
    tellHeirs('')
    return 0
  end
  if t[2] % 2 == 0 and redis.call('PUBSUB', '${dialect.countSubscribers}', theirs)[2] > 0 then
    redis.call('${dialect.publish}', theirs, '0')
    local head = headOf(queue)
    while head and not listens(head) do
      redis.call('ZREM', queue, head)
      head = headOf(queue)
    end
    tellHeirs('')
    return 0
  end
  local fence = mint()
  if not fence then tellHeirs('') elseif handOver(nil, fence) then return 0 end
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
${headOf}
local place = member and redis.pcall('ZRANK', queue, member)
if type(place) == 'number' then redis.call('ZREM', queue, member) else place = nil end
local held = redis.pcall('HMGET', lock, attempt, '${QUEUE_FIELD}')
if held.err and not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
if held.err or not held[1] or not ${isAttempt('attempt')} then
  if place and place < ${HEIRS} then
    ${clock}
    ${handOver(dialect)}
    local ours = redis.pcall('HEXISTS', lock, '${HOLD_FIELD}') == 1
    tellHeirs(' ' .. (ours and redis.call('PTTL', lock) or 0) + 1)
  end
  return 1
end
${letGo(dialect, 'held[2]')}
`

/**
 * The hold goes on under an id that no attempt has, and ends after the given time. The first waiters look then; those of
 * Redisson, and of other adapters that listen to its channel, look now and see how long it takes.
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
  ${handOver(dialect)}
  if headOf(queue) then tellHeirs(' ' .. keepMs) end
end
redis.call('${dialect.publish}', 'redisson_lock__channel' .. string.sub(token, ${'redisson_lock_token'.length + 1}), '0')
return 0
`

const end = (dialect: Dialect): string => `
local lock, token, queue, fence, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
${refused}
${readLock}
${headOf}
local fields, attempt, minted = readLock(lock)
if not fields then return refused('foreign', lock) end
if not attempt or fence ~= (minted or '') or (fence == '' and attempt ~= owner) then return 1 end
${letGo(dialect, 'true')}
`

/** The scripts that hand locks over. */
export interface Scripts {
  /**
   * KEYS lock, token, queue. ARGV attempt, life in ms, about; then, unless 0, lock-delay in ms, and to be
   * enqueued the claim in ms and the secret of the entry. Returns the fence, or [remaining ms, place in the queue or
   * -1, time in µs, fields of the lock …].
   */
  readonly acquire: Script
  /**
   * KEYS lock, token, queue. ARGV attempt, and the member to take out of the queue if there is one.
   * Returns 0 when this call ended the hold of the attempt, 1 when it did not hold the lock.
   */
  readonly free: Script
  /**
   * KEYS lock, token, queue. ARGV attempt, the id that keeps the lock in its place, for how many ms. Returns 0 when the
   * lock is kept so, by this call or an earlier one, 1 when the attempt did not hold it.
   */
  readonly keep: Script
  /**
   * KEYS lock, token, queue. ARGV fence of the hold to end or '', and else which of Redisson's fields has it.
   * Returns 0 when it was ended, 1 when it is over.
   */
  readonly end: Script
}

const spoken = new Map<string, Scripts>()

/** In the text of the scripts, the idle time costs a call nothing. */
export function scriptsOf(cluster: boolean, fenceIdleMs: number): Scripts {
  const key = `${cluster} ${fenceIdleMs}`
  let scripts = spoken.get(key)
  if (scripts === undefined)
    spoken.set(key, (scripts = speak({ ...(cluster ? sharded : single), fenceIdleMs })))
  return scripts
}

const speak = (dialect: Dialect): Scripts => ({
  acquire: script(acquire(dialect)),
  free: script(free(dialect)),
  keep: script(keep(dialect)),
  end: script(end(dialect)),
})
