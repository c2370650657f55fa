import { afterAll } from 'vitest'
import { affectedUnderTorture, hostVariant } from '../../../conformance/host.ts'
import { clusterSubjects } from './support/subjects.ts'

const { subject, pinned, service } = await clusterSubjects()
afterAll(() => service.close())
await hostVariant(subject, { otherwise: pinned, areas: affectedUnderTorture })
