import assert from 'node:assert/strict'
import { setTimeout as pass } from 'node:timers/promises'
import type { StoreRule } from './rule.ts'

const PROCESSES = 4
const PUTS = 50
const KILLS = 12

/** How often `worker.ts` has counted, by what stands in the store. */
function countIn(value: string | undefined): number {
  return Number(value?.split(' ')[0] ?? 0)
}

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
      const workers = await Promise.all(Array.from({ length: PROCESSES }, () => bench.worker(key)))
      const versions = (await Promise.all(workers.map((worker) => worker.count(PUTS)))).flat()
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
      const survivor = await bench.worker(key)
      const counting = survivor.count(PUTS)
      const acknowledged: bigint[] = []
      for (let n = 0; n < KILLS; n += 1) {
        const victim = await bench.worker(key)
        void victim.count(Infinity).catch(() => undefined)
        await victim.first
        await pass(Math.random() * 10)
        await victim.kill()
        acknowledged.push(...victim.acknowledged)
      }
      acknowledged.push(...(await counting))
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
