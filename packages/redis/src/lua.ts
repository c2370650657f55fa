// Units of the scripts: how they recognise their keys. A key that they do not recognise they never change.
// Each names the Lua variables it reads (in) and the ones it defines (out).

/**
 * In the hash of the lock, beside Redisson's holder field: `fence;since;about`. `since` is in µs, empty if the fence is
 * that time. It is short because Redis keeps a hash compact while no value is longer than 64 bytes.
 */
export const HOLD_FIELD = 'hold'

/** In the hash of our lock while its queue may have entries, so that other releases need not look. */
export const QUEUE_FIELD = 'queue'

/** An attempt id or Redisson's holder field: `uuid:number`. Never one of the fields beside it. */
export const ATTEMPT = '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$'

/** Lua for whether a text is an attempt id and not a field beside a holder. Cheaper than `ATTEMPT`, for every call. */
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

/** Out: `refused(why, key)`, the reply of a script that has changed nothing; `record.ts` reads it. */
export const refused: string = `
local function refused(why, key)
  local kind = redis.call('TYPE', key).ok
  return { 'refused', why, key, kind, kind == 'hash' and redis.call('HLEN', key) or 0 }
end
`

/** Lua for whether `reply` is the error of a key of another type. Every other error is raised by calling once more. */
const isOfOtherType = (reply: string, call: string): string => `
(type(${reply}) == 'table' and ${reply}.err
  and (string.find(${reply}.err, 'WRONGTYPE', 1, true) or redis.call(${call})))
`

/**
 * Out: `readLock(lock)`, which returns fields, holder, fence, since and queued of our lock; fields and holder of
 * Redisson's; no fields of a free one; nil if the key is anything else. It reads only hashes as small as a lock. A
 * holder field alone is Redisson's lock only with a ttl: Redisson sets one in the script that writes the field.
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
  if holder and not fence and redis.call('PTTL', lock) < 0 then return nil end
  return fields, holder, fence, since, queued
end
`

/** Out: `headOf(queue)`, which returns its first entry, false if it is empty, nil if the key is not our queue. */
export const headOf: string = `
local function headOf(queue)
  local members = redis.pcall('ZRANGE', queue, 0, 0)
  if ${isOfOtherType('members', `'ZRANGE', queue, 0, 0`)} then return nil end
  if not members[1] then return false end
  return ${isEntry('members[1]')} and members[1] or nil
end
`

/**
 * In: token. Out: `last`, the counter of fences, false without one; `wrong`, why it cannot be used. Inline, so that an
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

/** Out: `t`; `now`, the server's time in µs: sixteen digits until 2286, so that texts compare like numbers. */
export const clock: string = `
local t = redis.call('TIME')
local now = t[1] .. string.sub('00000' .. t[2], -6)
`

/** In: token. Writes a fence that may be ahead of the clock: it expires once the clock is past it by the idle time. */
export const setToken = (fence: string, fenceIdleMs: number | string): string =>
  fenceIdleMs === 0
    ? `redis.call('SET', token, ${fence})`
    : `redis.call('SET', token, ${fence}, 'PXAT', string.format('%.0f', ${fence} / 1000 + ${fenceIdleMs} + 1))`
