import { LockError } from '@locks/core/adapter'
import { randomBytes } from 'node:crypto'
import type { SqlErrors } from './errors.ts'
import { memberOf } from './transaction-query.ts'
import type { TransactionQuery } from './transaction-query.ts'

const turns = new WeakMap<object, Promise<unknown>>()

/**
 * Runs `work` after what was asked for in the same transaction before: their statements would mix, and one would undo
 * settings that another needs.
 */
export function inTurn<T>(tx: object, work: () => Promise<T>): Promise<T> {
  const turn = (turns.get(tx) ?? Promise.resolve()).then(work)
  // A failure is for its own caller; the next one has its turn all the same.
  turns.set(
    tx,
    turn.catch(() => undefined),
  )
  return turn
}

/** The statements of one call that locks a name in a transaction of the program. */
export class TransactionCall {
  readonly name: string
  readonly #query: TransactionQuery
  readonly #errors: SqlErrors
  readonly #startedAt: number = performance.now()

  constructor(errors: SqlErrors, query: TransactionQuery, name: string) {
    this.#errors = errors
    this.#query = query
    this.name = name
  }

  /** Runs a statement. Rejects with a `LockError`, whose cause has the code of the server. */
  async run(sql: string): Promise<unknown> {
    try {
      return await this.#query(sql)
    } catch (error) {
      throw this.#errors.toLockError(serverError(error))
    }
  }

  /**
   * The words of a reply. `sql` gets a nonce and returns one row with one text, which begins with it: the reply to
   * another statement must not decide about the lock.
   */
  async ask(sql: (nonce: string) => string): Promise<readonly string[]> {
    const nonce = randomBytes(8).toString('hex')
    const [first, ...words] = (textIn(await this.run(sql(nonce))) ?? '').split(' ')
    if (first === nonce) return words
    throw this.#errors.unavailable(
      'the server answered another statement than the one sent, so the outcome is unknown; roll the transaction back',
    )
  }

  /** The name was not granted in time. `over`: the server has rolled the whole transaction back. */
  timedOut(waitMs: number, over = false): LockError {
    const waitedMs = performance.now() - this.#startedAt
    const after = waitMs === 0 ? '' : ` after waiting ${Math.round(waitedMs)} ms`
    const next = over
      ? 'innodb_rollback_on_timeout is on, so the server has rolled the transaction back'
      : 'the transaction goes on without it'
    return new LockError('LOCK_TIMEOUT', `lock ${JSON.stringify(this.name)} is held${after}; ${next}`, {
      lock: this.name,
      ...(waitMs > 0 && { waitedMs }),
    })
  }
}

/** The one text in a result: some libraries return rows, others an object or a list that contains them. */
function textIn(result: unknown): string | undefined {
  if (typeof result === 'string') return result
  if (result instanceof Uint8Array) return Buffer.from(result).toString()
  if (typeof result !== 'object' || result === null) return undefined
  if (Array.isArray(result)) return textIn(result[0])
  return textIn('rows' in result ? result.rows : Object.values(result)[0])
}

/** The error of the server within the one that a library made of it. */
export function serverError(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const meta = memberOf(error, 'meta')
  const within =
    typeof meta === 'object' && meta !== null
      ? prismaError(meta)
      : (memberOf(error, 'driverError') ?? error.cause)
  return within instanceof Error ? serverError(within) : error
}

/** Prisma keeps the code of the server beside its own, and the message inside its own. */
function prismaError(meta: object): Error | undefined {
  const adapter = memberOf(meta, 'driverAdapterError')
  const cause: unknown = adapter instanceof Error ? adapter.cause : undefined
  const details = typeof cause === 'object' && cause !== null ? cause : meta
  const code = memberOf(details, 'originalCode') ?? memberOf(details, 'code')
  if (typeof code !== 'string' && typeof code !== 'number') return undefined
  const message = String(memberOf(details, 'originalMessage') ?? memberOf(details, 'message'))
  const errno = Number(code)
  return Object.assign(new Error(message), {
    code: String(code),
    ...(errno > 0 && errno < 10_000 && { errno }),
  })
}
