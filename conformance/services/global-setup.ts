import { rm } from 'node:fs/promises'
import { evidenceFolder } from '../evidence.ts'
import { obtainChromium } from '../../docs/test/site/chromium.ts'
import { scope } from '../selection.ts'
import { selectedKinds } from './families.ts'
import { prepareServices } from './prepare.ts'
import { provideTemplates } from './sources/templates.ts'

/** For `globalSetup` of vitest: whatever must be installed or pulled is, before the clock of any test runs. */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  // Every project of a run comes here.
  if (process.env['LOCKS_TEST_PREPARED'] !== undefined) return undefined
  process.env['LOCKS_TEST_PREPARED'] = 'yes'
  await rm(evidenceFolder, { recursive: true, force: true })
  const sources = await prepareServices(selectedKinds())
  const list = [...sources].map(([kind, source]) => `${kind} (${source})`).join(', ')
  if (list !== '') process.stderr.write(`locks: real servers for this run: ${list}\n`)
  // Without one, the test that needs it says so.
  if (scope() === 'all')
    await obtainChromium().catch((error: unknown) => process.stderr.write(`locks: ${String(error)}\n`))
  return provideTemplates()
}
