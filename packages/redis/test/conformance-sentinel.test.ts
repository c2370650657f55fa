import { afterAll } from 'vitest'
import { affectedUnderTorture, hostVariant } from '../../../conformance/host.ts'
import { sentinelSubject } from './support/subjects.ts'

const { subject, service } = await sentinelSubject()
afterAll(() => service.close())
await hostVariant(subject, { areas: affectedUnderTorture })
