import { test } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { isSelected } from '../../../conformance/selection.ts'
import { ensembleSubject } from './subjects.ts'

if (isSelected('zookeeper-ensemble')) await hostConformance(await ensembleSubject())
else
  test('conformance of zookeeper-ensemble', ({ skip }) => skip('LOCKS_ONLY does not name zookeeper-ensemble'))
