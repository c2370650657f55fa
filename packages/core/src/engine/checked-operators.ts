import type { Capabilities } from '../adapter/capabilities.ts'
import type { Adapter, Finding, LockState, Pruned } from '../adapter/spi.ts'
import { adapterFault, kindOf } from './adapter-fault.ts'
import { ask, isCount, isObject, readList, readState } from './checked-answers.ts'

const MAX_FINDINGS = 10_000

/** The methods for operators, as far as the adapter has them. */
export function checkedOperatorMethods(
  inner: Adapter,
  capabilities: Capabilities,
): Pick<Adapter, 'list' | 'break' | 'diagnose' | 'prune'> {
  return {
    ...(capabilities.list && {
      list: (limit) =>
        ask(
          'list',
          () => inner.list?.(limit),
          (answer) => readStates(answer, limit, capabilities),
        ),
    }),

    ...(capabilities.break && {
      break: (name, holder) => ask('break', () => inner.break?.(name, holder), readBroken),
    }),

    ...(inner.diagnose !== undefined && {
      diagnose: () => ask('diagnose', () => inner.diagnose?.(), readFindings),
    }),

    ...(inner.prune !== undefined && {
      prune: (idleMs, names) => ask('prune', () => inner.prune?.(idleMs, names), readPruned),
    }),
  }
}

function readBroken(answer: unknown): 'broken' | 'not-held' {
  if (answer === 'broken' || answer === 'not-held') return answer
  throw adapterFault('break', kindOf(answer))
}

function readStates(answer: unknown, limit: number, capabilities: Capabilities): readonly LockState[] {
  return readList('list', answer, { upTo: limit }).map((state) =>
    readState('list', state, undefined, capabilities),
  )
}

function readPruned(answer: unknown): Pruned {
  if (!isObject(answer)) throw adapterFault('prune', kindOf(answer))
  const { pruned, more, kept } = answer
  if (!isCount(pruned) || typeof more !== 'boolean')
    throw adapterFault('prune', `${kindOf(pruned)} pruned, more: ${kindOf(more)}`)
  if (kept === undefined) return { pruned, more }
  if (!isObject(kept)) throw adapterFault('prune', `kept: ${kindOf(kept)}`)
  const { names, why } = kept
  if (!isCount(names) || typeof why !== 'string') throw adapterFault('prune', 'kept without names or why')
  return { pruned, more, kept: { names, why } }
}

function readFindings(answer: unknown): readonly Finding[] {
  return readList('diagnose', answer, { upTo: MAX_FINDINGS }).map((finding) => {
    if (!isObject(finding)) throw adapterFault('diagnose', `a finding that is ${kindOf(finding)}`)
    const { check, level, message, advice } = finding
    if (level !== 'ok' && level !== 'warning' && level !== 'danger')
      throw adapterFault('diagnose', `a finding of level ${kindOf(level)}`)
    if (typeof check !== 'string' || typeof message !== 'string')
      throw adapterFault('diagnose', 'a finding without check or message')
    if (advice === undefined) return { check, level, message }
    if (typeof advice !== 'string') throw adapterFault('diagnose', `advice that is ${kindOf(advice)}`)
    return { check, level, message, advice }
  })
}
