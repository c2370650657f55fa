import { test } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { isSelected } from '../../../conformance/selection.ts'
import { ensembleSubject, singleSubject } from './subjects.ts'

if (isSelected('zookeeper')) {
  await hostConformance(await singleSubject())
  await hostConformance(await ensembleSubject())
} else {
  test('conformance of zookeeper', ({ skip }) => skip('LOCKS_ONLY does not name zookeeper'))
}
