import { HOLD_FIELD, script } from './script.ts'
import type { Script } from './script.ts'

// The scripts that know a lock and its holder alone. Those with a queue are in `queue-scripts.ts`.

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
  else
    local leftMs = held == 1 and redis.call('PTTL', lock) or 0
    outcomes[i] = leftMs > tonumber(delayMs) and 1 or 0
    if outcomes[i] == 1 and leftMs < tonumber(lifeMs) then redis.call('PEXPIRE', lock, lifeMs) end
  end
end
return outcomes
`)

/**
 * KEYS lock. ARGV from, to, fence, life in ms, lock-delay in ms, about.
 * Answers 1, or 0 when neither holds it under that fence.
 */
export const adopt: Script = script(`
local lock, from, to, fence, lifeMs, delayMs = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local held = redis.call('HMGET', lock, from, to, '${HOLD_FIELD}')
local minted, since = string.match(held[3] or '', '^(%d+)(;%d*;)')
if not (held[1] or held[2]) or minted ~= fence then return 0 end
local leftMs = redis.call('PTTL', lock)
if leftMs <= tonumber(delayMs) then return 0 end
redis.call('HDEL', lock, from)
redis.call('HSET', lock, to, 1, '${HOLD_FIELD}', fence .. since .. ARGV[6])
if leftMs < tonumber(lifeMs) then redis.call('PEXPIRE', lock, lifeMs) end
return 1
`)

/** KEYS lock, queue. Answers [remaining ms, waiters, fields of the lock …]. Changes nothing. */
export const inspect: Script = script(`
return { redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]), unpack(redis.call('HGETALL', KEYS[1])) }
`)

/**
 * ARGV keys of hashes, of whomever. Answers those that are held locks by the look of them, ours or Redisson's: a few
 * fields, one of them a holder's. They are no KEYS, which would have to be in one slot and all within reach of the
 * user; what has moved, or may not be read, is none. Changes nothing.
 */
export const locksAmong: Script = script(`
local locks = {}
for _, key in ipairs(ARGV) do
  local size = redis.pcall('HLEN', key)
  if type(size) == 'number' and size <= 3 then
    for _, field in ipairs(redis.call('HKEYS', key)) do
      if string.match(field, '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$') then locks[#locks + 1] = key end
    end
  end
end
return locks
`)

/**
 * KEYS lock, token. ARGV attempt, fence, what it was minted here. Where the attempt still holds the lock, that
 * fence is its own, and every later one is higher. Answers 1, or 0 when it does not hold it. It may come late:
 * never lowers the token, nor the fence of what the attempt was granted since.
 */
export const raise: Script = script(`
local lock, token, fence = KEYS[1], KEYS[2], ARGV[2]
if redis.call('HEXISTS', lock, ARGV[1]) == 0 then return 0 end
local last = redis.call('GET', token)
if not last or tonumber(last) < tonumber(fence) then redis.call('SET', token, fence) end
local own, since, about = string.match(redis.call('HGET', lock, '${HOLD_FIELD}'), '^(%d+);(%d*)(;.*)$')
if since == '' then since = own end
if own == ARGV[3] or tonumber(own) < tonumber(fence) then
  redis.call('HSET', lock, '${HOLD_FIELD}', fence .. ';' .. since .. about)
end
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
