import { createHash } from 'node:crypto'

/** A Lua script and the hash it is called by. */
export interface Script {
  readonly text: string
  readonly sha: string
}

/**
 * Redis pairs replies with commands by their order alone. So the last argument of every call names that call, and the
 * reply begins with that name: a reply to another call is noticed (see `script-call.ts`). The body of a script does
 * not see that argument; what it returns comes as a text or a list. Error replies stay as they are: they are never
 * taken for an outcome.
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
 * In the hash of the lock, beside Redisson's field of the holder: `fence;since;about`. Since when is in µs, and left out
 * when the fence is that time; about the holder there is as little as will do: Redis keeps a hash compact
 * while no value is longer than 64 bytes.
 */
export const HOLD_FIELD = 'hold'

/** In the hash of a lock of ours while somebody may be in its queue, so that a release need not look. */
export const QUEUE_FIELD = 'queue'
