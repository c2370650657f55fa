import { afterAll } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { redlockSubjects } from './support/subject.ts'

const { subject, wired, service } = await redlockSubjects(3)
afterAll(() => service.close())
await hostConformance(subject, wired)
