import { createHash } from 'node:crypto'

export interface Script {
  readonly source: string
  readonly sha1: string
}

/**
 * Redis pairs replies with commands by their order alone. So the last argument of every call names that call, and its
 * reply is `{ name, what the body returns }`: a reply to another call is noticed. The body does not see that argument.
 */
function script(body: string): Script {
  const source = `
local name = table.remove(ARGV)
local function answer()
${body}
end
return { name, answer() }
`
  return { source, sha1: createHash('sha1').update(source).digest('hex') }
}

/** KEYS[1] the record. Answers { version, value }, or nothing of either. */
export const getScript: Script = script(`return redis.call('HMGET', KEYS[1], 'version', 'value')`)

/** KEYS[1] the record, for the server that has it. Returns that server's time: { seconds, microseconds }. */
export const timeScript: Script = script(`return redis.call('TIME')`)

/**
 * KEYS[1] the record; ARGV: its expected version, the idle time in ms. Deletes it if it has that version and the server's
 * clock is past it by the idle time: the next version is that clock. Answers { '1' } or { '0' }.
 */
export const dropScript: Script = script(`
local version = redis.call('HGET', KEYS[1], 'version')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if version ~= ARGV[1] or tonumber(version) >= now - ARGV[2] * 1000 then return { '0' } end
redis.call('DEL', KEYS[1])
return { '1' }
`)

/**
 * KEYS[1] the record, a hash of `version` and `value`; ARGV: the expected version or '', the new value,
 * the channel of hints, for how long it is kept in ms or 0. Answers { new version } or { version or '', value } of
 * what is there instead.
 *
 * The version is at least the server's clock in microseconds, so that it also rises after the data was
 * lost or a failover took some of it back, or it expired: it does when that clock is past it by the idle time. Lua
 * counts exactly up to 2^53, which that clock reaches in 2255.
 */
export const putScript: Script = script(`
local at = redis.call('HMGET', KEYS[1], 'version', 'value')
if (at[1] or '') ~= ARGV[1] then return { at[1] or '', at[2] or '' } end
local time = redis.call('TIME')
local version = time[1] * 1000000 + time[2]
if at[1] and tonumber(at[1]) >= version then version = tonumber(at[1]) + 1 end
local next = string.format('%.0f', version)
redis.call('HSET', KEYS[1], 'version', next, 'value', ARGV[2])
if ARGV[4] == '0' then
  redis.call('PERSIST', KEYS[1])
else
  redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', version / 1000 + ARGV[4] + 1))
end
redis.call('PUBLISH', ARGV[3], next .. ' ' .. ARGV[2])
return { next }
`)
