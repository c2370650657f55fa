import { conformance } from '@locks/core/conformance'
import type { ConformanceCase, Subject } from '@locks/core/conformance'
import { describe, test } from 'vitest'
import { noteHistory } from './evidence.ts'
import './report/outcome.ts'
import { isSelected, scope } from './selection.ts'

type Area = ConformanceCase['area']

/**
 * Hosts the whole suite for one backend in vitest, with what the table at the end of a run needs. Rules that
 * `subject` cannot try are tried on `otherwise`, the same backend set up in another way.
 */
export async function hostConformance(subject: Subject, otherwise?: Subject): Promise<void> {
  await host(subject, otherwise, () => undefined)
}

/** Areas that more servers of the same kind, or another store behind the same adapter, may change. */
const affected: readonly Area[] = [
  'atomicity',
  'uniqueness',
  'waiting',
  'crash',
  'fencing',
  'lost replies',
  'connections',
]

/** The same for a topology on which every run of the tests also looks for two holders, by torture. */
export const affectedUnderTorture: readonly Area[] = affected.filter(
  (area) => area !== 'atomicity' && area !== 'uniqueness',
)

/**
 * The same for a backend whose adapter has the whole suite elsewhere. The other areas are left to
 * `npm test -- --all`.
 */
export async function hostVariant(
  subject: Subject,
  { otherwise, areas = affected }: { readonly otherwise?: Subject; readonly areas?: readonly Area[] } = {},
): Promise<void> {
  const whole = scope() === 'all'
  await host(subject, otherwise, (area) =>
    whole || areas.includes(area) ? undefined : 'left to npm test -- --all',
  )
}

async function host(
  subject: Subject,
  otherwise: Subject | undefined,
  leftOut: (area: Area) => string | undefined,
): Promise<void> {
  if (!isSelected(subject.name)) return
  const others = new Map((otherwise ? await conformance(otherwise) : []).map((one) => [one.id, one]))
  const cases = (await conformance(subject)).map((one) =>
    one.untested === undefined ? one : (others.get(one.id) ?? one),
  )
  if (cases.length === 0) throw new Error('the suite has no cases')
  describe(`conformance: ${subject.name}`, () => {
    // Most of a case is waiting for leases to end. Those that need quiet come last, one by one.
    const ordered = cases.toSorted((a, b) => Number(a.alone) - Number(b.alone))
    for (const { id, area, title, timeoutMs, run, alone, ...one } of ordered) {
      const untested = one.untested ?? leftOut(area)
      test(title, { timeout: timeoutMs, retry: 0, concurrent: !alone }, async ({ task, skip, signal }) => {
        const rule = { backend: subject.name, area, rule: id }
        task.meta.locks = untested === undefined ? rule : { ...rule, untested, applicable: one.applicable }
        if (untested !== undefined) skip(untested)
        const onVoid = ({ message }: Error): void =>
          void (task.meta.voids = [...(task.meta.voids ?? []), message])
        await run({ signal, onVoid, onHistory: (events) => noteHistory(task.id, events) })
      })
    }
  })
}
