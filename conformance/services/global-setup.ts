import { obtainChromium } from '../site/chromium.ts'
import { selectedKinds } from './families.ts'
import { prepareServices } from './prepare.ts'

/** For `globalSetup` of vitest: whatever must be installed or pulled is, before the clock of any test runs. */
export async function setup(): Promise<void> {
  // Every project of a run comes here.
  if (process.env['LOCKS_TEST_PREPARED'] !== undefined) return
  process.env['LOCKS_TEST_PREPARED'] = 'yes'
  const sources = await prepareServices(selectedKinds())
  const list = [...sources].map(([kind, source]) => `${kind} (${source})`).join(', ')
  if (list !== '') process.stderr.write(`locks: real servers for this run: ${list}\n`)
  // Without one, the test that needs it says so.
  await obtainChromium().catch((error: unknown) => process.stderr.write(`locks: ${String(error)}\n`))
}
