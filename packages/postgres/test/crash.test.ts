import { scaled } from '../../../conformance/services/timing.ts'
import { sqlCrashTests } from '../../../conformance/test-kit/sql-tables.ts'
import { open, startServer } from './setup.ts'

const server = await startServer()
sqlCrashTests(
  { server, strategies: ['unique-key', 'row'], open },
  { ttlMs: scaled(500), waitMs: scaled(20_000) },
)
