import { afterAll } from 'vitest'
import { hostVariant } from '../../../conformance/host.ts'
import { startSubject } from './support/subject.ts'

const { subject, close } = await startSubject('named')
afterAll(close)

// All but the server's lock itself is shared with the strategy `row`.
await hostVariant(subject, {
  areas: ['atomicity', 'waiting', 'lost replies', 'connections', 'pause', 'names'],
})
