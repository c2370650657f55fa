import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { watchRules } from './watch-rules.ts'
import type { StoreRule } from './rule.ts'

const keysThatDiffer = [
  'a',
  'A',
  'a/b',
  '../a',
  './a',
  'a ',
  ' a',
  'é',
  'e\u0301',
  '__proto__',
  '😀',
  'a\nb',
  '*',
  '%61',
]

export const rules: readonly StoreRule[] = [
  {
    id: 'STORE-1',
    title: 'a missing key is undefined, and no version of it can be replaced',
    async run(bench) {
      const [store, key] = [bench.open(), bench.key()]
      assert.equal(await store.get(key), undefined)
      for (const version of [0n, 1n, 7n])
        assert.equal(await bench.refused(store, key, 'x', version), undefined)
      assert.equal(await store.get(key), undefined, 'a refused put created the key')
    },
  },
  {
    id: 'STORE-2',
    title: 'a key is created once: later puts are refused and get what is there',
    async run(bench) {
      const [store, other, key] = [bench.open(), bench.open(), bench.key()]
      const version = await bench.put(store, key, 'first')
      assert.deepEqual(await bench.refused(other, key, 'second'), { value: 'first', version })
      assert.deepEqual(await other.get(key), { value: 'first', version })
    },
  },
  {
    id: 'STORE-3',
    title:
      'a put over the present version replaces the value, for all clients at once, and versions only rise',
    async run(bench) {
      const [store, other, key] = [bench.open(), bench.open(), bench.key()]
      let version = await bench.put(store, key, 'value 0')
      for (let n = 1; n <= 20; n += 1) {
        const next = await bench.put(n % 2 === 0 ? store : other, key, `value ${n}`, version)
        assert.ok(next > version, `version ${next} after ${version}`)
        version = next
        for (const reader of [store, other])
          assert.deepEqual(await reader.get(key), { value: `value ${n}`, version })
      }
    },
  },
  {
    id: 'STORE-4',
    title: 'a put over any other version is refused, changes nothing and gets what is there',
    async run(bench) {
      const [store, key] = [bench.open(), bench.key()]
      const first = await bench.put(store, key, 'first')
      const second = await bench.put(store, key, 'second', first)
      for (const stale of [first, second + 1n, second - 1n, 0n, undefined])
        assert.deepEqual(await bench.refused(store, key, 'x', stale), { value: 'second', version: second })
      assert.deepEqual(await store.get(key), { value: 'second', version: second })
    },
  },
  {
    id: 'STORE-5',
    title: 'of many concurrent puts over one version, or of a new key, exactly one wins',
    async run(bench) {
      const stores = Array.from({ length: 6 }, () => bench.open())
      const key = bench.key()
      let expected: bigint | undefined
      for (let round = 0; round < 10; round += 1) {
        const puts = stores.flatMap((store, n) =>
          [0, 1].map((m) => store.put(key, `${round} ${n} ${m}`, expected, true)),
        )
        const answers = await Promise.all(puts)
        const won = answers.filter((answer) => 'version' in answer)
        assert.equal(won.length, 1, `${won.length} winners in round ${round}`)
        expected = won[0]?.version
        for (const answer of answers)
          if ('conflict' in answer) assert.equal(answer.current?.version, expected, 'shown what is not there')
      }
    },
  },
  {
    id: 'STORE-6',
    title: 'keys that are near to each other are different keys, and any text is a value',
    async run(bench) {
      const [store, prefix] = [bench.open(), bench.key()]
      const keys = [...keysThatDiffer, 'x'.repeat(900), `${'x'.repeat(899)}y`].map((key) => prefix + key)
      const values = ['{}', 'a\nb\r\n', '\u0000', '😀'.repeat(50), ' ', 'x'.repeat(20_000)]
      const made = keys.map((key, n) => ({ key, value: `${n} ${values[n % values.length]}` }))
      // These mean something elsewhere if they stand alone. They may be there from another run, and locks may use them,
      // so that each is left as a free record.
      for (const key of ['.', '..', '/', '__proto__'])
        made.push({ key, value: JSON.stringify({ name: key, run: prefix }) })
      for (const { key, value } of made) await bench.put(store, key, value, (await store.get(key))?.version)
      for (const { key, value } of made)
        assert.equal((await store.get(key))?.value, value, JSON.stringify(key))
    },
  },
  {
    id: 'STORE-7',
    title: 'a put that is repeated, since its answer was lost, is refused and finds its own value',
    async run(bench) {
      const [store, key] = [bench.open(), bench.key()]
      const first = await bench.put(store, key, 'made')
      assert.deepEqual(await bench.refused(store, key, 'made'), { value: 'made', version: first })
      const second = await bench.put(store, key, 'mine', first)
      assert.deepEqual(await bench.refused(store, key, 'mine', first), { value: 'mine', version: second })
    },
  },
  {
    id: 'STORE-8',
    title: 'a key that was deleted and created again has a higher version, and refuses all earlier ones',
    needs: 'drop',
    async run(bench) {
      const [store, key] = [bench.open(), bench.key()]
      const versions = [await bench.put(store, key, 'one')]
      versions.push(await bench.put(store, key, 'two', versions[0]))
      await bench.drop(key)
      assert.equal(await store.get(key), undefined)
      assert.equal(await bench.refused(store, key, 'x', versions[1]), undefined)
      const version = await bench.put(store, key, 'again')
      assert.ok(
        versions.every((earlier) => earlier < version),
        `created again at version ${version}`,
      )
      for (const earlier of versions)
        assert.deepEqual(await bench.refused(store, key, 'x', earlier), { value: 'again', version })
    },
  },
  {
    id: 'STORE-9',
    title: 'puts by clients that read, compute and write lose no update',
    timeoutMs: 30_000,
    async run(bench) {
      const [stores, key] = [Array.from({ length: 4 }, () => bench.open()), bench.key()]
      await Promise.all(
        stores.map(async (store) => {
          for (let done = 0; done < 15;) {
            const current = await store.get(key)
            const answer = await store.put(key, `${Number(current?.value ?? 0) + 1}`, current?.version, false)
            if ('version' in answer) done += 1
          }
        }),
      )
      assert.equal((await stores[0]?.get(key))?.value, '60')
    },
  },
  ...watchRules,
  {
    id: 'STORE-13',
    title: 'values lists every value with its version, and changes nothing',
    needs: 'values',
    async run(bench) {
      const [store, other] = [bench.open(), bench.open()]
      const made = new Map<string, bigint>()
      for (let n = 0; n < 30; n += 1) {
        const [key, value] = [bench.key(`${n}`), `value ${randomUUID()}`]
        const first = await bench.put(store, key, `earlier ${value}`)
        made.set(value, await bench.put(store, key, value, first))
      }
      for (const reader of [store, other, other]) {
        const found = new Map<string, bigint>()
        for await (const { value, version } of reader.values?.() ?? []) found.set(value, version)
        for (const [value, version] of made) {
          assert.equal(found.get(value), version, value)
          assert.ok(!found.has(`earlier ${value}`), 'a value that was replaced')
        }
      }
    },
  },
]
