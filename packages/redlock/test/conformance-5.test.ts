import { afterAll } from 'vitest'
import { hostVariant } from '../../../conformance/host.ts'
import { redlockSubjects } from './support/subject.ts'

const { subject, wired, service } = await redlockSubjects(5)
afterAll(() => service.close())
// Two more nodes change how a majority is found, and nothing else.
await hostVariant(subject, {
  otherwise: wired,
  areas: ['atomicity', 'crash', 'fencing'],
})
