import { afterAll } from 'vitest'
import { affected, hostVariant } from '../../../conformance/host.ts'
import { startSubject } from './support/subject.ts'

const { subject, close } = await startSubject('advisory')
afterAll(close)

await hostVariant(subject, { areas: [...affected] })
