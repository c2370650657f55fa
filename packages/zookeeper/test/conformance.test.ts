import { test } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { isSelected } from '../../../conformance/selection.ts'
import { singleSubject } from './support/subjects.ts'

if (isSelected('zookeeper')) await hostConformance(await singleSubject())
else test('conformance of zookeeper', ({ skip }) => skip('LOCKS_ONLY does not name zookeeper'))
