import { scaled } from '../../../conformance/services/timing.ts'
import { sqlCrashTests } from '../../sql/test/support/table-tests.ts'
import { open, startServer } from './support/setup.ts'

const server = await startServer()
sqlCrashTests(
  { server, strategies: ['unique-key', 'row'], open },
  { ttlMs: scaled(500), waitMs: scaled(20_000) },
)
