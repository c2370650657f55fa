import {
  ATTEMPT,
  clock,
  headOf,
  HOLD_FIELD,
  isAbove,
  isAttempt,
  readLock,
  readToken,
  refused,
  setToken,
} from './lua.ts'
import { script } from './script.ts'
import type { Script } from './script.ts'

// The scripts that need no queue. The others are in `queue-scripts.ts`.

/**
 * KEYS one lock each. ARGV for each: attempt, ttl with lock-delay in ms, lock-delay in ms.
 * Returns for each 1 renewed, 0 lost, -1 unknown. A key that is not a hash any more is not a hold.
 */
export const renew: Script = script(`
local outcomes = {}
for i, lock in ipairs(KEYS) do
  local attempt, lifeMs, delayMs = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local held = ${isAttempt('attempt')} and redis.pcall('HEXISTS', lock, attempt) or 0
  if type(held) == 'table' then
    outcomes[i] = string.find(held.err, 'WRONGTYPE', 1, true) and 0 or -1
  else
    local leftMs = held == 1 and redis.call('PTTL', lock) or 0
    outcomes[i] = leftMs > tonumber(delayMs) and 1 or 0
    if outcomes[i] == 1 and leftMs < tonumber(lifeMs) then redis.call('PEXPIRE', lock, lifeMs) end
  end
end
return outcomes
`)

/**
 * KEYS lock. ARGV from, to, fence, ttl with lock-delay in ms, lock-delay in ms, about.
 * Returns 1, or 0 if neither attempt holds it under that fence.
 */
export const adopt: Script = script(`
local lock, from, to, fence, lifeMs, delayMs = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
${refused}
${readLock}
if not string.match(from, '${ATTEMPT}') or not string.match(to, '${ATTEMPT}') then return refused('attempt', lock) end
local fields, holder, minted, since = readLock(lock)
if not fields then return refused('foreign', lock) end
if (holder ~= from and holder ~= to) or minted ~= fence then return 0 end
local leftMs = redis.call('PTTL', lock)
if leftMs <= tonumber(delayMs) then return 0 end
redis.call('HDEL', lock, from)
redis.call('HSET', lock, to, 1, '${HOLD_FIELD}', fence .. since .. ARGV[6])
if leftMs < tonumber(lifeMs) then redis.call('PEXPIRE', lock, lifeMs) end
return 1
`)

/** KEYS lock, queue. Returns [remaining ms, waiters, the first 100 and scores, fields of the lock …]. Only reads. */
export const inspect: Script = script(`
local lock, queue = KEYS[1], KEYS[2]
${refused}
${readLock}
${headOf}
local fields = readLock(lock)
if not fields then return refused('foreign', lock) end
if headOf(queue) == nil then return refused('foreign', queue) end
local first = redis.call('ZRANGE', queue, 0, 99, 'WITHSCORES')
return { redis.call('PTTL', lock), redis.call('ZCARD', queue), first, unpack(fields) }
`)

/**
 * ARGV keys of hashes. Returns those that are held locks, ours or Redisson's. Not as KEYS, which would have to be in
 * one slot and all permitted; a key that has moved, or may not be read, is left out. Changes nothing.
 */
export const locksAmong: Script = script(`
${readLock}
local locks = {}
for _, key in ipairs(ARGV) do
  if type(redis.pcall('HLEN', key)) == 'number' then
    local _, holder = readLock(key)
    if holder then locks[#locks + 1] = key end
  end
end
return locks
`)

/**
 * KEYS lock, token. ARGV attempt, fence, the fence minted here, idle time in ms or 0. If the attempt still holds the
 * lock, that fence becomes its own, and every later one is higher. Returns 1, or 0 if it does not hold it. It may come
 * late: it never lowers the token, nor the fence of a newer grant of the attempt.
 */
export const raise: Script = script(`
local lock, token, attempt, fence = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
${refused}
${readLock}
local fields, holder, own = readLock(lock)
if not fields then return refused('foreign', lock) end
if holder ~= attempt or not own then return 0 end
${readToken}
if wrong == 'foreign' then return refused(wrong, token) end
if ${isAbove('fence', '>')} then return refused('range', token) end
if not last or #last < #fence or (#last == #fence and last < fence) then
  if ARGV[4] == '0' then redis.call('SET', token, fence) else ${setToken('fence', 'ARGV[4]')} end
end
local since, about = string.match(redis.call('HGET', lock, '${HOLD_FIELD}'), '^%d+;(%d*)(;.*)$')
if since == '' then since = own end
if own == ARGV[3] or tonumber(own) < tonumber(fence) then
  redis.call('HSET', lock, '${HOLD_FIELD}', fence .. ';' .. since .. about)
end
return 1
`)

/**
 * KEYS token, lock, queue. ARGV idle time in ms. Deletes the fence of a free name that was minted longer ago than that:
 * the next one is the time, which is past it. Returns 1, or 0 if it is kept.
 */
export const prune: Script = script(`
local token = KEYS[1]
if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then return 0 end
${readToken}
if not last or wrong then return 0 end
${clock}
if tonumber(last) >= tonumber(now) - ARGV[1] * 1000 then return 0 end
return redis.call('DEL', token)
`)

/** KEYS[1] any key. Returns 1 if there is such a key, or 0. */
export const isThere: Script = script("return redis.call('EXISTS', KEYS[1])")

/**
 * ARGV keys of fences. Returns how many of them never expire, the lowest of all and the lowest of these, or 0. Not as
 * KEYS, as for `locksAmong`. Changes nothing.
 */
export const oldestTokens: Script = script(`
local lasting, least, leastLasting = 0, nil, nil
local function lower(a, b) if b and tonumber(b) <= tonumber(a) then return b end return a end
for _, token in ipairs(ARGV) do
  local fence = redis.pcall('GET', token)
  if type(fence) == 'string' and string.match(fence, '^%d+$') then
    least = lower(fence, least)
    if redis.pcall('PTTL', token) == -1 then
      lasting = lasting + 1
      leastLasting = lower(fence, leastLasting)
    end
  end
end
return { lasting, least or '0', leastLasting or '0' }
`)

/**
 * KEYS highest fence seen, keys of the command. ARGV fence, command and its arguments, or the fence alone.
 * Returns 0 if a higher fence was seen, -1 if the key holds something else, otherwise [the command's reply]. Fences are
 * compared as texts: a double is not exact for all of them.
 */
export const guarded: Script = script(`
local fence = ARGV[1]
local seen = redis.call('GET', KEYS[1])
if seen and not string.match(seen, '^%d+$') then return -1 end
if seen and (#seen > #fence or (#seen == #fence and seen > fence)) then return 0 end
if seen ~= fence then redis.call('SET', KEYS[1], fence) end
if #ARGV == 1 then return { 'OK' } end
return { redis.call(unpack(ARGV, 2)) }
`)
