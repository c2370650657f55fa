import { hostConformance } from '../../../conformance/host.ts'

await hostConformance({ name: 'cas-memory', config: { adapter: '@locks/cas', store: 'memory' } })
