import { afterAll } from 'vitest'
import { hostVariant } from '../../../conformance/host.ts'
import { redlockSubjects } from './support/subject.ts'

const { subject, wired, service } = await redlockSubjects(5)
afterAll(() => service.close())
await hostVariant(subject, wired)
