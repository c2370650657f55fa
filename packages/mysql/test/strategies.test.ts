import { migrate } from '@locks/mysql'
import { sqlStrategyTests } from '../../sql/test/support/strategy-tests.ts'
import { connect, open, startServer } from './support/setup.ts'

const server = await startServer({ 'max-connections': 400 })

sqlStrategyTests({
  server,
  strategies: ['unique-key', 'row', 'named'],
  open,
  migrate,
  run: async (text) => (await connect(server)).query(text),
})
