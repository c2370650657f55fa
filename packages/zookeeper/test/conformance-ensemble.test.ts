import { test } from 'vitest'
import { hostVariant } from '../../../conformance/host.ts'
import { isSelected } from '../../../conformance/selection.ts'
import { ensembleSubject } from './support/subjects.ts'

if (isSelected('zookeeper-ensemble'))
  await hostVariant(await ensembleSubject(), { areas: ['crash', 'fencing', 'lost replies', 'connections'] })
else
  test('conformance of zookeeper-ensemble', ({ skip }) => skip('LOCKS_ONLY does not name zookeeper-ensemble'))
