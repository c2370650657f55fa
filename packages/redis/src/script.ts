import { createHash } from 'node:crypto'

/** A Lua script and the hash it is called by. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/**
 * Redis pairs replies with commands by their order alone. So the last argument of every call names that call, and the
 * reply begins with that name: `script-call.ts` notices a reply to another call. The body of a script does not see
 * that argument; it returns a text or a list. Error replies stay as they are, since they are never an outcome.
 */
export function script(body: string): Script {
  // A text costs Redis half of what a list does.
  const text = `
local call = table.remove(ARGV)
local function answer()
${body}
end
local reply = answer()
local kind = type(reply)
if kind == 'string' or kind == 'number' then return call .. reply end
if kind == 'table' and reply.err then return reply end
return { call, reply }
`
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/**
 * In the hash of the lock, beside Redisson's holder field: `fence;since;about`. `since` is in µs, empty if the fence is
 * that time. It is short because Redis keeps a hash compact while no value is longer than 64 bytes.
 */
export const HOLD_FIELD = 'hold'

/** In the hash of our lock while its queue may have entries, so that other releases need not look. */
export const QUEUE_FIELD = 'queue'
