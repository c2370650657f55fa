import { afterAll } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { singleSubject } from './support/subjects.ts'

const { subject, service } = await singleSubject()
afterAll(() => service.close())
await hostConformance(subject)
