import assert from 'node:assert/strict'
import { setTimeout as pass } from 'node:timers/promises'
import { countIn } from './counter.ts'
import type { StoreRule } from './rule.ts'

const PROCESSES = 4
const PUTS = 50
const KILLS = 12

function assertDistinct(versions: readonly bigint[]): void {
  assert.equal(new Set(versions).size, versions.length, 'one version was given to two puts')
}

export const processRules: readonly StoreRule[] = [
  {
    id: 'STORE-11',
    title: 'processes that count by compare-and-set lose no count, and no version is given twice',
    needs: 'processes',
    timeoutMs: 60_000,
    async run(bench) {
      const [store, key] = [bench.open(), bench.key()]
      const counters = await Promise.all(Array.from({ length: PROCESSES }, () => bench.counter(key)))
      await Promise.all(counters.map((counter) => counter.count(PUTS)))
      const versions = (await Promise.all(counters.map((counter) => counter.acknowledged()))).flat()
      assert.equal(versions.length, PROCESSES * PUTS)
      assertDistinct(versions)
      assert.equal(countIn((await store.get(key))?.value), PROCESSES * PUTS)
    },
  },
  {
    id: 'STORE-12',
    title: 'processes killed at any moment lose no count that was acknowledged, and leave a key that works',
    needs: 'processes',
    timeoutMs: 60_000,
    async run(bench) {
      const [store, key] = [bench.open(), bench.key()]
      const survivor = await bench.counter(key)
      const counting = survivor.count(PUTS)
      const acknowledged: bigint[] = []
      for (let n = 0; n < KILLS; n += 1) {
        const victim = await bench.counter(key)
        const ended = victim.count(Infinity)
        const first = bench.eventually('the first put of a process', 30_000, async () => {
          return (await victim.acknowledged()).length > 0
        })
        await Promise.race([first, ended])
        ended.catch(() => undefined)
        await pass(Math.random() * 10)
        await victim.kill()
        acknowledged.push(...(await victim.acknowledged()))
      }
      await counting
      acknowledged.push(...(await survivor.acknowledged()))
      assertDistinct(acknowledged)
      const current = await store.get(key)
      const count = countIn(current?.value)
      const most = acknowledged.length + KILLS
      assert.ok(
        count >= acknowledged.length && count <= most,
        `${count} counts, ${acknowledged.length} acknowledged before ${KILLS} kills`,
      )
      await bench.put(store, key, `${count + 1} by the last`, current?.version)
    },
  },
]
