import { createHash } from 'node:crypto'
import type { Script } from './redis-client.ts'

/**
 * KEYS[1] the record, a hash of `version` and `value`; ARGV: the expected version or '', the new value,
 * the channel of hints. Answers { new version } or { version or '', value } of what is there instead.
 *
 * The version is at least the server's clock in microseconds, so that it also rises after the data was
 * lost or a failover took some of it back. Lua counts exactly up to 2^53, which that clock reaches in 2255.
 */
const source = `
local at = redis.call('HMGET', KEYS[1], 'version', 'value')
if (at[1] or '') ~= ARGV[1] then return { at[1] or '', at[2] or '' } end
local time = redis.call('TIME')
local version = time[1] * 1000000 + time[2]
if at[1] and tonumber(at[1]) >= version then version = tonumber(at[1]) + 1 end
local next = string.format('%.0f', version)
redis.call('HSET', KEYS[1], 'version', next, 'value', ARGV[2])
redis.call('PUBLISH', ARGV[3], next .. ' ' .. ARGV[2])
return { next }
`

export const putScript: Script = {
  source,
  sha1: createHash('sha1').update(source).digest('hex'),
}
