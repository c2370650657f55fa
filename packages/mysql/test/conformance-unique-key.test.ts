import { afterAll } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { startSubject } from './support/subject.ts'

const { subject, close } = await startSubject('unique-key')
afterAll(close)

await hostConformance(subject)
