import { UnderWay } from '@locks/sql'
import { expect, test } from 'vitest'

function deferred(): { readonly promise: Promise<void>; settle(error?: Error): void } {
  let settle: (error?: Error) => void = () => undefined
  const promise = new Promise<void>((resolve, reject) => {
    settle = (error) => (error ? reject(error) : resolve())
  })
  return { promise, settle }
}

test('a withdrawal comes after whatever of its attempt is under way, however that ends', async () => {
  for (const error of [undefined, new Error('connection lost')]) {
    const underWay = new UnderWay()
    const [first, second] = [deferred(), deferred()]
    const order: string[] = []
    const calls = [first, second].map((one) => underWay.run('a', () => one.promise).catch(() => undefined))
    const withdrawn = underWay.after('a', async () => void order.push('withdrawn'))
    const other = underWay.after('b', async () => void order.push('other'))
    await other
    second.settle()
    await calls[1]
    order.push('second')
    first.settle(error)
    await withdrawn
    expect(order).toEqual(['other', 'second', 'withdrawn'])
  }
})

test('a withdrawal comes after a call that others of its attempt have overtaken', async () => {
  const underWay = new UnderWay()
  const [first, second] = [deferred(), deferred()]
  const order: string[] = []
  const overtaken = underWay.run('a', () => first.promise).then(() => order.push('first'))
  const overtaking = underWay.run('a', () => second.promise)
  second.settle()
  await overtaking
  const withdrawn = underWay.after('a', async () => void order.push('withdrawn'))
  await new Promise((resolve) => setImmediate(resolve))
  first.settle()
  await Promise.all([overtaken, withdrawn])
  expect(order).toEqual(['first', 'withdrawn'])
})

test('a call answers what it came to', async () => {
  const underWay = new UnderWay()
  expect(await underWay.run('a', async () => 1)).toBe(1)
  await expect(underWay.run('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await underWay.after('a', async () => 2)).toBe(2)
})
