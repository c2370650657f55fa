import { describe } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { sqlCrashTests } from '../../../conformance/test-kit/sql-tables.ts'
import { open, startServer } from './setup.ts'

const server = await startServer()
describe('a crash of the server', () =>
  sqlCrashTests(
    { server, strategies: ['unique-key', 'row', 'named'], open },
    { ttlMs: scaled(1_000), waitMs: scaled(30_000) },
  ))
