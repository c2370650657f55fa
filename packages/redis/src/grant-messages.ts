/** A grant as the release that made it publishes it: `attempt fence µs claim lock proof`. Anyone may have sent it. */
export interface GrantMessage {
  readonly attemptId: string
  readonly fence: bigint
  /** By the server's clock, in µs. */
  readonly madeAt: number
  readonly ttlMs: number
  /** Key of the lock. */
  readonly lock: string
  /** The message without its proof. */
  readonly text: string
  /** Empty if there is none. */
  readonly proof: string
}

/** Worth a look after a while: `attempt ms` when another client's claim ends, `attempt` on Redisson's turn. */
export interface Hint {
  readonly attemptId: string
  readonly inMs: number | undefined
}

const attempt = String.raw`([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}:\d{1,19})`
const grantForm = new RegExp(
  String.raw`^(${attempt} (\d{1,16}) (\d{16}) (\d{1,9}) (.+?))(?: ([\da-f]{40}))?$`,
  's',
)
const hintForm = new RegExp(String.raw`^${attempt}(?: (\d{1,9}))?$`)

/** Undefined for a text of neither form. */
export function readMessage(message: string): GrantMessage | Hint | undefined {
  const hint = hintForm.exec(message)
  if (hint !== null) {
    const [, attemptId = '', inMs] = hint
    return { attemptId, inMs: inMs === undefined ? undefined : Number(inMs) }
  }
  const grant = grantForm.exec(message)
  if (grant === null) return undefined
  const [, text = '', attemptId = '', fence = '', madeAt, ttlMs, lock = '', proof = ''] = grant
  return { attemptId, fence: BigInt(fence), madeAt: Number(madeAt), ttlMs: Number(ttlMs), lock, text, proof }
}
