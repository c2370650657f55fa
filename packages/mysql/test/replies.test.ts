import { createPool } from 'mysql2/promise'
import { onTestFinished } from 'vitest'
import { replyTests } from '../../sql/test/support/reply-tests.ts'
import { DEADLOCK, lagging, NOTHING_CHANGED } from './support/lagging-proxy.ts'
import { bare, open, startServer } from './support/setup.ts'

const bed = { server: await startServer(), open, bare, lagging, emptyReply: NOTHING_CHANGED }

replyTests(bed, 'url', ({ url }, poolSize) => bare({ url, poolSize }), DEADLOCK)
replyTests(
  bed,
  'pool',
  ({ url }, connectionLimit) => {
    const pool = createPool({ uri: url, connectionLimit })
    onTestFinished(() => pool.end())
    return bare({ pool })
  },
  DEADLOCK,
)
