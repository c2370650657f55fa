import assert from 'node:assert/strict'
import { setTimeout as pass } from 'node:timers/promises'
import type { Versioned } from '../versioned-store.ts'
import type { StoreRule } from './rule.ts'

/** Hints may be lost, but a store that offers them should not lose them all. */
const CHANGES = 20

export const watchRules: readonly StoreRule[] = [
  {
    id: 'STORE-10',
    title: 'a watch tells of changes by others, and what it tells was true; after its end it is silent',
    needs: 'watch',
    async run(bench) {
      const [store, other, key] = [bench.open(), bench.open(), bench.key()]
      let version = await bench.put(store, key, 'start')
      const written = new Map([[version, 'start']])
      const heard: (Versioned | undefined)[] = []
      let bell: () => void = () => undefined
      const stop = await store.watch?.(key, (current) => {
        heard.push(current)
        bell()
      })
      for (let n = 0; n < CHANGES && heard.length === 0; n += 1) {
        const rung = new Promise<void>((resolve) => (bell = resolve))
        version = await bench.put(other, key, `change ${n}`, version)
        written.set(version, `change ${n}`)
        await Promise.race([rung, pass(250)])
      }
      assert.ok(heard.length > 0, `none of ${CHANGES} changes was heard`)
      for (const current of heard)
        if (current !== undefined) assert.equal(current.value, written.get(current.version))
      stop?.()
      await bench.put(other, key, 'unheard', version)
      // Whatever was under way is through by then; nothing is waited for.
      await pass(100)
      assert.ok(!heard.some((current) => current?.value === 'unheard'), 'heard after its end')
    },
  },
]
