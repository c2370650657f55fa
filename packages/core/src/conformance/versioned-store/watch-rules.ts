import assert from 'node:assert/strict'
import { setTimeout as pass } from 'node:timers/promises'
import type { Versioned } from '../../adapter/versioned-store.ts'
import type { StoreRule } from './rule.ts'

/** Hints may be lost, but a store that offers them should not lose them all. */
const CHANGES = 20

export const watchRules: readonly StoreRule[] = [
  {
    id: 'STORE-10',
    title: 'a watch reports changes by others, with values that were there; after its end it is silent',
    needs: 'watch',
    async run(bench) {
      const [store, other, key] = [bench.open(), bench.open(), bench.key()]
      let version = await bench.put(store, key, 'start')
      const written = new Map([[version, 'start']])
      const hints: (Versioned | undefined)[] = []
      let wake: () => void = () => undefined
      const stop = await store.watch?.(key, (current) => {
        hints.push(current)
        wake()
      })
      for (let n = 0; n < CHANGES && hints.length === 0; n += 1) {
        const woken = new Promise<void>((resolve) => (wake = resolve))
        version = await bench.put(other, key, `change ${n}`, version)
        written.set(version, `change ${n}`)
        await Promise.race([woken, pass(250)])
      }
      assert.ok(hints.length > 0, `none of ${CHANGES} changes was reported`)
      for (const current of hints)
        if (current !== undefined) assert.equal(current.value, written.get(current.version))
      stop?.()
      await bench.put(other, key, 'unreported', version)
      // Time for a hint that must not come.
      await pass(100)
      assert.ok(
        !hints.some((current) => current?.value === 'unreported'),
        'a hint after the end of the watch',
      )
    },
  },
]
