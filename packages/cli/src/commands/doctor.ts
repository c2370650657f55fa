import type { Finding } from '@locks/core'
import { backendOf, backendOptions, openBackend, showBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'
import type { Paint } from '../output.ts'
import { probe } from '../probe.ts'

export const doctor: Command = {
  usage: '[URL] [options]',
  about: `Checks a backend: whether it answers, whether locks can be acquired, renewed and released, how long that
takes, and what its settings mean for locks. Each finding says what to do. Uses a separate lock and changes nothing
else. Exits with 1 if it finds a danger.`,
  options: backendOptions,
  examples: [
    'locks doctor redis://localhost',
    'locks doctor --json | jq \'.findings[] | select(.level != "ok")\'',
  ],

  async run(args, invocation) {
    const [url] = args.named('[URL]')
    const backend = await backendOf(args, url)
    const locks = await openBackend(invocation, backend)
    const { findings: own, roundTripMs } = await probe(locks, invocation.signal)
    let findings = own
    try {
      const reported = await locks.diagnose()
      // Prefer the adapter's finding of the same check, but never drop a danger that the probe found.
      const isReported = ({ check, level }: Finding): boolean =>
        reported.some((one) => one.check === check && (level !== 'danger' || one.level === 'danger'))
      findings = [...own.filter((one) => !isReported(one)), ...reported]
    } catch (error) {
      // The probe has already reported that the store is unreachable.
      if (own.every(({ level }) => level !== 'danger')) throw error
    }
    invocation.signal.throwIfAborted()
    const danger = findings.some(({ level }) => level === 'danger')
    const unreachable = own.some(({ check, level }) => check === 'reachable' && level === 'danger')
    if (args.flag('json')) {
      const shown = showBackend(backend)
      invocation.printJson({
        backend: shown,
        ok: !danger,
        findings,
        roundTripMs,
        capabilities: locks.capabilities,
      })
    } else {
      invocation.print(`${invocation.paint('bold', showBackend(backend))}\n`)
      for (const finding of findings) invocation.print(show(finding, invocation.paint))
      invocation.print(`\n${verdict(findings)}`)
    }
    return unreachable ? exitCodes.unavailable : danger ? exitCodes.failure : exitCodes.ok
  },
}

const marks = { ok: ['green', '✓'], warning: ['yellow', '!'], danger: ['red', '✗'] } as const

function show({ check, level, message, advice }: Finding, paint: Paint): string {
  const [colour, mark] = marks[level]
  const todo = advice === undefined ? '' : `\n    ${paint('dim', '→')} ${advice}`
  return `${paint(colour, mark)} ${paint('bold', check)}: ${message}${todo}`
}

function verdict(findings: readonly Finding[]): string {
  const count = (level: Finding['level']): number => findings.filter((one) => one.level === level).length
  const [dangers, warnings] = [count('danger'), count('warning')]
  if (dangers + warnings === 0) return 'No problems found.'
  return `${dangers} ${dangers === 1 ? 'danger' : 'dangers'}, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}.`
}
