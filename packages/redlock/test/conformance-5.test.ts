import { afterAll } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { redlockSubject } from './support/subject.ts'

const { subject, service } = await redlockSubject(5)
afterAll(() => service.close())
await hostConformance(subject)
