import { afterAll } from 'vitest'
import { hostVariant } from '../../../conformance/host.ts'
import { startSubject } from './support/subject.ts'

const { subject, close } = await startSubject('advisory')
afterAll(close)

// Attempts, waits and holds are shared with the strategy `row`, which has the whole suite.
await hostVariant(subject, { areas: ['atomicity', 'waiting', 'lost replies', 'connections', 'pause'] })
