import { isRecord } from '@locks/core/adapter'
import type { Pool, PoolClient } from 'pg'
import { errors, isOfFailedTransaction } from '../errors.ts'
import type { GivenPool, LentConnection, Row, Statement } from './driver.ts'
import { send } from './pg-send.ts'
import { Replication } from './replication.ts'

export function isPgPool(value: unknown): value is Pool {
  if (!isRecord(value)) return false
  return typeof value['connect'] === 'function' && isRecord(value['options']) && 'totalCount' in value
}

/** The pool hides its password from copies. */
export function settingsOf({ options }: Pool): object {
  return { ...options, password: options.password }
}

export function readsBinary({ options }: Pool): boolean {
  return 'binary' in options && options.binary === true
}

export function givenPgPool(pool: Pool): GivenPool {
  return {
    use() {
      const { max } = pool.options
      return { max, full: pool.idleCount === 0 && pool.totalCount >= max }
    },
    hasRoom: () => pool.idleCount > pool.waitingCount,
    take: async () => new LentClient(await pool.connect()),
  }
}

class LentClient implements LentConnection {
  readonly #client: PoolClient
  readonly #connection: PoolClient['connection']
  readonly #replication = new Replication()
  #committed = true

  constructor(client: PoolClient) {
    const { connection }: Partial<PoolClient> = client
    if (connection === undefined) {
      client.release()
      throw errors.invalid('pool must be of pg itself: pg-native does not return values as text')
    }
    this.#client = client
    this.#connection = connection
    client.on('error', ignore)
    client.on('notice', this.#replication.noticed)
    connection.on('readyForQuery', this.#ready)
  }

  readonly #ready = (message: { readonly status?: unknown }): void =>
    void (this.#committed = message.status === 'I')

  async query(statement: Statement, values: unknown[], named: boolean): Promise<readonly Row[]> {
    try {
      return this.#replication.checked(await send(this.#client, statement, values, named))
    } catch (error) {
      // The server reports the state of the transaction after the error, and pg does not wait for that.
      if (isOfFailedTransaction(error)) this.#committed = false
      throw error
    }
  }

  get committed(): boolean {
    return this.#committed
  }

  giveBack(useless: boolean): void {
    this.#connection.off('readyForQuery', this.#ready)
    this.#client.off('error', ignore)
    this.#client.off('notice', this.#replication.noticed)
    this.#client.release(useless)
  }
}

/** The statement under way fails with the same error. */
function ignore(): void {}
