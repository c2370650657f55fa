import { stallMeter, VoidRunError } from '@locks/core/conformance'
import type { LocksConfig } from '@locks/core'
import { fork } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { TestContext } from 'vitest'
import { serverBackends } from '../config/backends.ts'
import { isSelected } from '../selection.ts'
import { startService } from '../services/index.ts'

const program = join(import.meta.dirname, 'host.fixture.mjs')
const PERIODS = 100
const PERIOD_MS = 300
/** The late host calls 100 ms after the other one: within this, and with time to spare before the next period. */
const MIN_HOLD_MS = 200
/** How far the wall clock of one host is ahead of that of the other. */
const SHIFT_MS = 2_000
/** From here on a call may fall into another period than it was made for. */
const LATE_MS = 80
/** A period in which a host stood still is void and does not count; others take its place, up to this many in total. */
const MOST_PERIODS = 200

interface Call {
  readonly ran: boolean
  readonly calledAt: number
  readonly ranAt: number
  /** In which period it ran, by the real clock, as the following two. */
  readonly period: number
  /** For which period it was made. */
  readonly due: number
  /** Up to which period it may keep the name taken. */
  readonly keptUntil: number
  readonly lateMs: number
  readonly tookMs: number
}

interface Host {
  /** Calls the job until then, by the real clock. */
  readonly run: (until: number) => Promise<readonly Call[]>
  readonly close: () => void
}

/** Resolves once it is connected. Ends with its own test: the `onTestFinished` of vitest is that of any test beside it. */
async function startHost(
  config: LocksConfig,
  shiftMs: number,
  onTestFinished: TestContext['onTestFinished'],
): Promise<Host> {
  const terms = { config, shiftMs, periodMs: PERIOD_MS, minHoldMs: MIN_HOLD_MS }
  const child = fork(program, [JSON.stringify(terms)])
  onTestFinished(() => void child.kill())
  const message = (): Promise<unknown> =>
    new Promise((resolve, reject) => {
      child.once('message', resolve)
      child.once('exit', (code) => reject(new Error(`the host ended with ${code}`)))
    })
  await message()
  return {
    async run(until) {
      child.send(until)
      const calls = await message()
      if (!isCalls(calls)) throw new Error(`not the calls of a host: ${JSON.stringify(calls)}`)
      return calls
    },
    close: () => void child.send('close'),
  }
}

function isCalls(value: unknown): value is readonly Call[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'object' && 'ran' in one)
}

const stores = serverBackends.filter(({ name }) => ['redis', 'postgres-unique-key'].includes(name))

test.concurrent.for(stores.filter(({ name }) => isSelected(name)))(
  `two hosts whose clocks differ by 2 s run a short job once in each of ${PERIODS} periods, with $name`,
  async ({ service: kind, config }, { onTestFinished }) => {
    await using service = await startService(kind)
    const where = await config(service)
    const hosts = await Promise.all([0, SHIFT_MS].map((shiftMs) => startHost(where, shiftMs, onTestFinished)))
    const calls: Call[] = []
    const due: number[] = []

    // A host that stood still may miss its period, come to the next one, or keep the name taken until then.
    const late = (): readonly Call[] => calls.filter(({ lateMs, tookMs }) => lateMs + tookMs > LATE_MS)
    const countedOf = (): readonly number[] => {
      const disturbing = late()
      return due.filter(
        (period) => !disturbing.some((call) => call.due <= period && period <= call.keptUntil),
      )
    }
    const begunAt = performance.now()
    for (let missing = PERIODS; missing > 0 && due.length < MOST_PERIODS;) {
      const periods = Math.min(missing, MOST_PERIODS - due.length)
      const first = Math.ceil(Date.now() / PERIOD_MS) + 2
      const until = (first + periods + 2) * PERIOD_MS
      calls.push(...(await Promise.all(hosts.map((host) => host.run(until)))).flat())
      due.push(...Array.from({ length: periods }, (_, n) => first + n))
      missing = PERIODS - countedOf().length
    }
    for (const host of hosts) host.close()

    // Never twice: of all runs, however late a host was. The next one began after the minimum hold of the one before.
    const runs = calls.filter(({ ran }) => ran).toSorted((a, b) => a.ranAt - b.ranAt)
    const gaps = runs.slice(1).map(({ ranAt }, n) => ranAt - (runs[n]?.calledAt ?? 0))
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(MIN_HOLD_MS)

    // Exactly once, in every period that counts.
    const counted = countedOf()
    const runsIn = (period: number): number => runs.filter((one) => one.period === period).length
    expect(counted.filter((period) => runsIn(period) !== 1)).toEqual([])
    // The other one came to each of them too, and found it taken.
    const refused = new Set(calls.filter(({ ran }) => !ran).map((call) => call.due))
    expect(counted.filter((period) => !refused.has(period))).toEqual([])

    // With fewer the run shows too little: void if the machine stalled meanwhile, and otherwise a fault of ours.
    if (counted.length < PERIODS) {
      const stalls = await stallMeter.since(performance.now() - begunAt)
      expect(stalls, `only ${counted.length} periods count, and nothing stalled`).not.toEqual([])
      const lost = late().map(({ lateMs, tookMs }) => lateMs + tookMs)
      const host = {
        who: 'a host',
        ms: lost.reduce((sum, each) => sum + each, 0),
        longestMs: Math.max(...lost),
      }
      throw new VoidRunError(`only ${counted.length} of ${due.length} periods without a pause`, [
        host,
        ...stalls,
      ])
    }
  },
)
