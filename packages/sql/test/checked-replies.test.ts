import { expect, test } from 'vitest'
import { PlainConnection } from './support/plain-store.ts'

class AskingConnection extends PlainConnection {
  /** Gets this reply to a statement with a nonce. */
  ask(reply: (nonce: string) => readonly (readonly string[])[]): Promise<readonly string[] | undefined> {
    return this.checked((nonce) => Promise.resolve(reply(nonce)))
  }
}

test('a reply with the nonce of its statement is an answer, and so is one without rows', async () => {
  const connection = new AskingConnection()
  expect(await connection.ask((nonce) => [[nonce, 'a']])).toEqual(['a'])
  expect(await connection.ask(() => [])).toBeUndefined()
  expect(connection.ended).toBe(false)
})

const holed: string[][] = []
holed[1] = ['1', 'a']

test.each([
  ['the nonce of another statement', [['0', 'a']]],
  ['a hole for a row', holed],
])('a reply with %s ends the connection', async (_, reply) => {
  const connection = new AskingConnection()
  await expect(connection.ask(() => reply)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(connection.ended).toBe(true)
})
