import { afterAll } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { sentinelSubject } from './support/subjects.ts'

const { subject, service } = await sentinelSubject()
afterAll(() => service.close())
await hostConformance(subject)
