import assert from 'node:assert/strict'
import type { Rule } from '../rule.ts'

export const atomicity: readonly Rule[] = [
  {
    id: 'ATOM-1',
    title: 'of many concurrent attempts by many clients exactly one wins',
    kind: 'required',
    async run(h) {
      const clients = await Promise.all(Array.from({ length: 8 }, () => h.client()))
      for (let round = 0; round < 10; round += 1) {
        const lock = h.name()
        const tries = clients.flatMap(({ locks }) =>
          Array.from({ length: 8 }, () => locks.lock(lock).tryAcquire()),
        )
        const leases = (await Promise.all(tries)).filter((lease) => lease !== null)
        assert.equal(leases.length, 1, `${leases.length} winners in round ${round}`)
        await leases[0]?.release()
      }
    },
  },
  {
    id: 'ATOM-2',
    title: 'the adapter itself grants one of many concurrent attempts',
    kind: 'required',
    async run(h) {
      const adapters = Array.from({ length: 8 }, () => h.adapter())
      for (let round = 0; round < 10; round += 1) {
        const lock = h.name()
        const answers = await Promise.all(
          adapters.flatMap(({ adapter, request }) =>
            Array.from({ length: 4 }, () => adapter.attempt(request(lock))),
          ),
        )
        const grants = answers.filter((answer) => 'fence' in answer)
        assert.equal(grants.length, 1, `${grants.length} grants in round ${round}`)
      }
    },
  },
  {
    id: 'ATOM-3',
    title: 'of concurrent attempts by several processes exactly one wins',
    kind: 'required',
    needs: ['processes'],
    async run(h) {
      const children = await Promise.all(Array.from({ length: 4 }, () => h.child()))
      for (let round = 0; round < 10; round += 1) {
        const lock = h.name()
        const tries = children.flatMap((child) =>
          Array.from({ length: 4 }, () => child.call('tryAcquire', { lock })),
        )
        const winners = (await Promise.all(tries)).filter((lease) => lease !== null)
        assert.equal(winners.length, 1, `${winners.length} winners in round ${round}`)
      }
    },
  },
  {
    id: 'ATOM-4',
    title: 'a refused attempt leaves nothing behind: the name is free once its holder releases it',
    kind: 'required',
    async run(h) {
      const holder = await h.client()
      const loser = await h.client()
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      for (let n = 0; n < 5; n += 1) assert.equal(await loser.locks.lock(lock).tryAcquire(), null)
      await lease.release()
      await h.free(lock)
    },
  },
  {
    id: 'ATOM-5',
    title: 'different names do not exclude each other',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const names = Array.from({ length: 20 }, () => h.name())
      const leases = await Promise.all(names.map((name) => locks.lock(name).tryAcquire()))
      assert.ok(leases.every((lease) => lease !== null))
      await Promise.all(leases.map((lease) => lease?.release()))
    },
  },
]
