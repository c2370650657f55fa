import { sessionReplyTests } from '../../sql/test/support/reply-tests.ts'
import { lagging, NO_ROW } from './support/lagging-proxy.ts'
import { bare, open, startServer } from './support/setup.ts'

const server = await startServer({ max_connections: 60 })

const bed = { server, open, bare, lagging, emptyReply: NO_ROW }
sessionReplyTests(bed, 'row')
sessionReplyTests(bed, 'advisory', ['inspect', 'list'])
