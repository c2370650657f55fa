import { afterAll } from 'vitest'
import { affected, hostVariant } from '../../../conformance/host.ts'
import { startSubject } from './support/subject.ts'

const { subject, close } = await startSubject('named')
afterAll(close)

// All but the server's lock itself is shared with the strategy `row`, which has the whole suite.
await hostVariant(subject, { areas: [...affected, 'pause', 'names', 'operation'] })
