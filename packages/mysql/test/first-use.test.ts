import { mariadbQuery } from '../../../conformance/services/index.ts'
import { firstUseTests } from '../../sql/test/support/first-use-tests.ts'
import { cell, connect, open, startServer } from './support/setup.ts'

const server = await startServer({ 'max-connections': 200 })

firstUseTests({
  adapter: '@locks/mysql',
  server,
  strategies: ['unique-key', 'row', 'named'],
  open,
  async run(text) {
    const connection = await connect(server)
    for (const one of text.split(';\n').filter((statement) => statement.trim() !== ''))
      await connection.query(one)
  },
  async tablesLike(table) {
    const text = 'SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME LIKE ?'
    return Number(await cell(await connect(server), text, [`${table}%`]))
  },
  async powerless() {
    await mariadbQuery(server, "CREATE USER IF NOT EXISTS powerless@'%' IDENTIFIED BY 'right'")
    await mariadbQuery(server, "GRANT SELECT, INSERT, UPDATE, DELETE ON locks.* TO powerless@'%'")
    return `mysql://powerless:right@${server.host}:${server.port}/locks`
  },
})
