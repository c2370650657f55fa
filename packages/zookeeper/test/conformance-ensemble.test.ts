import { test } from 'vitest'
import { affectedUnderTorture, hostVariant } from '../../../conformance/host.ts'
import { isSelected } from '../../../conformance/selection.ts'
import { ensembleSubject } from './support/subjects.ts'

if (isSelected('zookeeper-ensemble'))
  await hostVariant(await ensembleSubject(), { areas: affectedUnderTorture })
else
  test('conformance of zookeeper-ensemble', ({ skip }) => skip('LOCKS_ONLY does not name zookeeper-ensemble'))
