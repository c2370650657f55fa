import { stallMeter } from '@locks/core/conformance'

// Once for each worker, which serves several files; `setup.ts` runs for each of them.

stallMeter.start()

// A run that was interrupted leaves its workers behind, and vitest does not end them.
if (process.connected) process.once('disconnect', () => process.exit(1))
