import type { UncheckedConfig } from '@locks/core'
import { isVoidRun } from '@locks/core/conformance'
import type { ConformanceCase } from '@locks/core/conformance'
import { realpath, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { copyOf, suiteOf } from '../../../conformance/mutants/mutant.ts'
import type { Edit } from '../../../conformance/mutants/mutant.ts'
import { startSubject } from './support/subject.ts'

// Mutants of core that only a lock that is a connection behind a wire reveals.

const { subject, close } = await startSubject('named')
afterAll(close)

/** A rule, ready to run on a mutated copy of the adapter. */
async function ruleOf(id: string, edits: readonly Edit[]): Promise<ConformanceCase> {
  const copy = await copyOf(['core', 'sql', 'mysql'], edits)
  onTestFinished(copy.dispose)
  const client = await realpath(join(import.meta.dirname, '../node_modules/mysql2'))
  await symlink(client, join(copy.root, 'node_modules/mysql2'))
  const { conformance } = await suiteOf(copy)
  const mutated = (config: UncheckedConfig): UncheckedConfig =>
    typeof config === 'string' ? config : { ...config, adapter: copy.pathOf('mysql', 'index.js') }
  const { config, wire } = subject
  if (wire === undefined) throw new Error('there is no way through a proxy')
  const cases = await conformance({
    ...subject,
    config: mutated(config),
    wire: { ...wire, via: (proxy) => mutated(wire.via(proxy)) },
  })
  const found = cases.find((one) => one.id === id)
  if (found === undefined || found.untested !== undefined) throw new Error(`${id} cannot run`)
  return found
}

test('the healthy adapter passes PAUSE-8', async () => {
  await (await ruleOf('PAUSE-8', [])).run()
})

test('PAUSE-8 catches: a holder that is cut off relies on its lock for longer than its ttl', async () => {
  const longer: Edit = {
    file: 'core/engine/term.js',
    find: 'this.#deadline = grantedAt + safeTtlMs(grantedMs);',
    replace: 'this.#deadline = grantedAt + 2 * grantedMs;',
  }
  const mutant = await ruleOf('PAUSE-8', [longer])
  const caught: unknown = await mutant.run().catch((error: unknown) => error)
  // Neither caught nor not.
  if (isVoidRun(caught)) throw caught
  expect(String(caught)).toMatch(/no longer relied on, after/)
})
