import { Pool } from 'pg'
import { onTestFinished } from 'vitest'
import { replyTests } from '../../sql/test/support/reply-tests.ts'
import { lagging, NO_ROW } from './support/lagging-proxy.ts'
import { bare, library, open, startServer } from './support/setup.ts'

const bed = { server: await startServer(), open, bare, lagging, emptyReply: NO_ROW }

// Without names of statements, so that each reply is one for all of a statement.
replyTests(bed, 'url', ({ url }, poolSize) => bare({ url, poolSize, listen: false }))
// A sql of postgres is not used for statements.
if (library === 'pg')
  replyTests(bed, 'pool', ({ url }, max) => {
    const pool = new Pool({ connectionString: url, max })
    pool.on('error', () => undefined)
    onTestFinished(() => pool.end())
    return bare({ pool, listen: false })
  })
