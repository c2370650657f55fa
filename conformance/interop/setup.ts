import { writeFileSync } from 'node:fs'
import { prepareServices } from '../services/index.ts'
import { buildPeers, NoJava, provideJava } from './java.ts'

/** For `globalSetup` of vitest. Without Java, `pnpm interop` learns the reason from its summary. */
export async function setup(): Promise<void> {
  try {
    await provideJava()
    await buildPeers()
  } catch (error) {
    const summaryFile = process.env['LOCKS_TEST_SUMMARY']
    if (!summaryFile || !(error instanceof NoJava)) throw error
    writeFileSync(summaryFile, JSON.stringify({ refusal: error.message }))
    // Nothing has started yet, and the reason is worth more than a stack.
    process.exit(1)
  }
  await prepareServices(['redis', 'redis-independent', 'zookeeper'])
}
