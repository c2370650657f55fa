import { afterAll } from 'vitest'
import { affectedUnderTorture, hostVariant } from '../../../conformance/host.ts'
import { startSubject } from './support/subject.ts'

const { subject, close } = await startSubject('row')
afterAll(close)

// The client is that of `unique-key`, the holds are those of PostgreSQL's `row`: both have the whole suite.
await hostVariant(subject, { areas: [...affectedUnderTorture, 'pause', 'operation'] })
