import { afterAll } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { clusterSubjects } from './support/subjects.ts'

const { subject, pinned, service } = await clusterSubjects()
afterAll(() => service.close())
await hostConformance(subject, pinned)
