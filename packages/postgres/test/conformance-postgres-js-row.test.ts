import { afterAll } from 'vitest'
import { hostVariant } from '../../../conformance/host.ts'
import { startSubject } from './support/subject.ts'

const { subject, close } = await startSubject('row', 'postgres')
afterAll(close)

await hostVariant(subject, { areas: ['crash'] })
