import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { isSelected } from '../../conformance/selection.ts'
import { startService } from '../../conformance/services/index.ts'
import { scaled, within } from '../../conformance/services/timing.ts'
import { stepsOf } from './readme.ts'
import { startRegistry } from './registry.ts'
import { emptyDirectory, typed } from './shell.ts'

/** Nearly all of it is npm's. */
const PATIENCE_MS = 120_000

if (isSelected('cas-file') && isSelected('redis'))
  describe('a newcomer, from an empty directory', () => {
    test(
      'holds a lock on a directory, then on Redis, by the README alone',
      { timeout: scaled(300_000) },
      async () => {
        const steps = await stepsOf('Quick start')
        const named = steps.flatMap((step) =>
          'file' in step ? [] : (step.command.match(/@locks\/[\w-]+/g) ?? []),
        )
        await using registry = await startRegistry(named)
        await using redis = await startService('redis')
        const directory = await emptyDirectory()
        const held: { fence: bigint; ms: number; command: string }[] = []
        const begun = performance.now()
        for (const step of steps) {
          if ('file' in step) {
            await writeFile(join(directory, step.file), step.text)
            continue
          }
          // The one thing that is another one here: where the server is.
          const command = step.command.replace('redis://localhost:6379', redis.url)
          const leftMs = PATIENCE_MS - (performance.now() - begun)
          const output = await within(leftMs, typed(command, directory, registry.url))
          const [, fence] = /^holding order:42 under fence (\d+)$/m.exec(output) ?? []
          if (fence !== undefined)
            held.push({ fence: BigInt(fence), ms: performance.now() - begun, command: step.command })
        }
        console.log(
          held.map(({ command, ms }) => `${command}: held after ${(ms / 1_000).toFixed(1)} s`).join('\n'),
        )
        expect(held.map(({ command }) => command)).toEqual([
          'node order.mjs',
          'LOCKS_URL=redis://localhost:6379 node order.mjs',
        ])
        // Really there: one lock in the directory.
        expect(await readdir(join(directory, 'locks'))).toContainEqual(expect.stringMatching(/^order_42-/))
      },
    )
  })
else
  test('a newcomer, from an empty directory', ({ skip }) => skip('LOCKS_ONLY leaves out cas-file or redis'))
