import { hostVariant } from '../../../conformance/host.ts'

await hostVariant({ name: 'cas-memory', config: { adapter: '@locks/cas', store: 'memory' } })
