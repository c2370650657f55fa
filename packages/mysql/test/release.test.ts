import { releaseTests } from '../../sql/test/support/release-tests.ts'
import { bare, connect, open, startServer } from './support/setup.ts'

const server = await startServer()
const config = { url: server.url }

releaseTests({
  open: () => open(config),
  bare: () => bare(config),
  async expire(name) {
    const past = 'UTC_TIMESTAMP(6) - INTERVAL 1 SECOND'
    const control = await connect(server)
    await control.query(`UPDATE locks SET expires_at = ${past}, blocked_until = ${past} WHERE name = ?`, [
      name,
    ])
  },
})
