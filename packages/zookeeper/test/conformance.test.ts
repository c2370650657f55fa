import { hostConformance } from '../../../conformance/host.ts'
import { ensembleSubject, singleSubject } from './subjects.ts'

await hostConformance(await singleSubject())
await hostConformance(await ensembleSubject())
