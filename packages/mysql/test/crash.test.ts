import { scaled } from '../../../conformance/services/timing.ts'
import { sqlCrashTests } from '../../sql/test/support/table-tests.ts'
import { open, startServer } from './support/setup.ts'

const server = await startServer()
sqlCrashTests(
  { server, strategies: ['unique-key', 'row', 'named'], open },
  { ttlMs: scaled(1_000), waitMs: scaled(30_000) },
)
