import { migrate } from '@locks/mysql'
import { sqlStrategyTests } from '../../../conformance/test-kit/sql-strategies.ts'
import { connect, open, startServer } from './setup.ts'

const server = await startServer({ 'max-connections': 400 })

sqlStrategyTests({
  server,
  strategies: ['unique-key', 'row', 'named'],
  open,
  migrate,
  run: async (text) => (await connect(server)).query(text),
})
