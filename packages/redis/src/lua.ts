import { HOLD_FIELD, QUEUE_FIELD } from './script.ts'

// Parts of the scripts: how they recognise what is theirs. What they do not recognise they never change.

/** An attempt id or a holder field of Redisson's: `uuid:number`. Never one of the fields that we keep beside it. */
export const ATTEMPT = '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$'

/**
 * Lua for whether a text has the form of an attempt id, as far as the fields beside a holder have not: cheaper than
 * `ATTEMPT`, for what every call does.
 */
export const isAttempt = (text: string): string =>
  `(string.sub(${text}, 37, 37) == ':' and string.find(${text}, '^%d+$', 38))`

/** The same for an entry of a queue. */
export const isEntry = (text: string): string =>
  `(string.sub(${text}, 37, 37) == ':' and string.find(${text}, '^%d+ %d+ %d+ %S+ ', 38))`

/** One waiter in a queue: attempt, claim in ms, lock-delay in ms, secret, about. */
export const ENTRY = '^(%x+%-%x+%-%x+%-%x+%-%x+:%d+) (%d+) (%d+) (%S+) (.*)$'

/** Numbers of Lua are exact up to here: a fence above it could repeat. */
const MAX_FENCE = '9007199254740991'

/** Lua for whether a fence is above the last one, or equal to it with `>=`. Fences are compared as texts. */
export const isAbove = (fence: string, than: '>' | '>='): string =>
  `(#${fence} > ${MAX_FENCE.length} or (#${fence} == ${MAX_FENCE.length} and ${fence} ${than} '${MAX_FENCE}'))`

/** How a script says that it has changed nothing, and why; `refused.ts` reads it. */
export const refused: string = `
local function refused(why, key)
  local kind = redis.call('TYPE', key).ok
  return { 'refused', why, key, kind, kind == 'hash' and redis.call('HLEN', key) or 0 }
end
`

/** Lua for whether `reply` says that a key is of another type. Every other error is raised, by calling once more. */
const isOfOtherType = (reply: string, call: string): string => `
(type(${reply}) == 'table' and ${reply}.err
  and (string.find(${reply}.err, 'WRONGTYPE', 1, true) or redis.call(${call})))
`

/**
 * `readLock(key)`: fields, holder, fence and since of a lock of ours; of Redisson's only fields and holder; of a free
 * one no fields. Nil where the key is anything else. A hash is read only if it is as small as a lock.
 */
export const readLock: string = `
local function readLock(lock)
  local size = redis.pcall('HLEN', lock)
  if ${isOfOtherType('size', `'HLEN', lock`)} or size > 3 then return nil end
  local fields = redis.call('HGETALL', lock)
  local holder, fence, since, queued, others
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if field == '${HOLD_FIELD}' then
      fence, since = string.match(value, '^(%d+)(;%d*;)')
      others = others or not fence
    elseif field == '${QUEUE_FIELD}' then
      queued = true
    elseif not holder and string.match(field, '${ATTEMPT}') and string.match(value, '^%d+$') then
      holder = field
    else
      others = true
    end
  end
  if others or (#fields > 0 and not holder) or (queued and not fence) then return nil end
  return fields, holder, fence, since, queued
end
`

/** `headOf(queue)`: its first entry, false without one. Nil where the key is anything but a queue of ours. */
export const headOf: string = `
local function headOf(queue)
  local members = redis.pcall('ZRANGE', queue, 0, 0)
  if ${isOfOtherType('members', `'ZRANGE', queue, 0, 0`)} then return nil end
  if not members[1] then return false end
  return ${isEntry('members[1]')} and members[1] or nil
end
`

/**
 * Reads the counter of fences into `last`, false without one; `wrong` says why it cannot be used. Inline, so that an
 * uncontended acquire makes no function.
 */
export const readToken: string = `
local last = redis.pcall('GET', token)
local wrong = nil
if last then
  if ${isOfOtherType('last', `'GET', token`)} or (last ~= '0' and not string.match(last, '^[1-9]%d*$')) then
    wrong = 'foreign'
  elseif ${isAbove('last', '>=')} then
    wrong = 'range'
  end
end
`

/** Time is the server's in µs: sixteen digits until the year 2286, so that texts compare like numbers. */
export const clock: string = `
local t = redis.call('TIME')
local now = t[1] .. string.sub('00000' .. t[2], -6)
`

/** Writes a fence that may be ahead of the clock: it expires when the clock is past it by the idle time. */
export const setToken = (fence: string, fenceIdleMs: number | string): string =>
  fenceIdleMs === 0
    ? `redis.call('SET', token, ${fence})`
    : `redis.call('SET', token, ${fence}, 'PXAT', string.format('%.0f', ${fence} / 1000 + ${fenceIdleMs} + 1))`
