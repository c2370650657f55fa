import { unqueued } from '@locks/sql'
import { expect, test } from 'vitest'

const runner = (name: string, room: boolean) => ({ name, hasRoom: () => room })

test('work that must not wait goes where there is room, and to the spare connection otherwise', async () => {
  const spare = runner('spare', true)
  const nameOf = async ({ name }: { readonly name: string }): Promise<string> => name
  expect(await unqueued(runner('main', true), spare, nameOf)).toBe('main')
  expect(await unqueued(runner('main', false), spare, nameOf)).toBe('spare')
})

test('without a spare connection it waits with the others', async () => {
  const tried: string[] = []
  const work = async ({ name }: { readonly name: string }): Promise<string> => {
    tried.push(name)
    if (name === 'spare') throw new Error('too many connections')
    return name
  }
  expect(await unqueued(runner('main', false), runner('spare', true), work)).toBe('main')
  expect(tried).toEqual(['spare', 'main'])
})
