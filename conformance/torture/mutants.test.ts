import { spawn } from 'node:child_process'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { copyOf } from '../mutants/mutant.ts'
import type { Edit } from '../mutants/mutant.ts'
import { startService } from '../services/index.ts'
import type { Service } from '../services/index.ts'
import { scaled } from '../services/timing.ts'
import { tortureMutants } from './mutants.ts'

const packages = fileURLToPath(new URL('../../packages/', import.meta.url))
const SEED = 7
const FOR = '20s'

/** The same command, which only asks for faults and injects none. */
const withoutFaults: Edit = {
  file: 'cli/commands/torture.js',
  find: 'faults: faultsOf(args),',
  replace: 'faults: [],',
}

/** Runs the command of a mutated copy. */
async function torture(
  url: string,
  edits: readonly Edit[],
  faults: string,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const { root, home, dispose } = await copyOf(['core', 'redis', 'cli'], edits)
  await cp(join(packages, 'cli/bin'), join(home, 'cli/bin'), { recursive: true })
  const args = [
    'torture',
    url,
    '--faults',
    faults,
    '--for',
    FOR,
    '--seed',
    String(SEED),
    '--processes',
    '3',
    '--names',
    '4',
    '--tasks',
    '4',
    // Short leases: more of them end while something is late.
    '--ttl',
    '400ms',
  ]
  const child = spawn(process.execPath, [join(home, 'cli/bin/locks.js'), ...args], { cwd: root })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  await dispose()
  return { code, output }
}

const quiet = tortureMutants.filter((mutant) => mutant.quiet)

// One after the other: each of them keeps two cores busy.
describe('torture of mutants', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService('redis')
  })
  afterAll(() => service.close())

  test(
    'the healthy library passes under every fault that must show a mutant',
    { timeout: scaled(180_000) },
    async () => {
      const faults = [...new Set(tortureMutants.flatMap((mutant) => mutant.faults.split(',')))].join(',')
      expect(await torture(service.url, [], faults)).toMatchObject({ code: 0 })
    },
  )

  for (const { bug, faults, shows, edits } of tortureMutants)
    test(`${faults} shows: ${bug}`, { timeout: scaled(180_000) }, async () => {
      const { code, output } = await torture(service.url, edits, faults)
      expect(output).toContain(`✗ ${shows}: `)
      expect(code).toBe(1)
    })

  test('at least five mutants are revealed by faults only, some of core and some of an adapter', () => {
    const [core, adapter] = ['core/', 'redis/'].map((start) =>
      quiet.filter(({ edits }) => edits.some(({ file }) => file.startsWith(start))),
    )
    expect(quiet.length).toBeGreaterThanOrEqual(5)
    expect(core).not.toEqual([])
    expect(adapter).not.toEqual([])
  })

  for (const { bug, faults, edits } of quiet)
    test(`without ${faults} nothing shows: ${bug}`, { timeout: scaled(180_000) }, async () => {
      const { code, output } = await torture(service.url, [...edits, withoutFaults], faults)
      expect(output).not.toContain('✗')
      expect(output).toMatch(/faults +none/)
      expect(code).toBe(0)
    })
})
