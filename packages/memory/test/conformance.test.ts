import { hostConformance } from '../../../conformance/host.ts'

await hostConformance({ name: 'memory', config: { adapter: '@locks/memory' } })
