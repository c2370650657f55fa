import { VoidRunError } from '@locks/core/conformance'
import type { LocksConfig } from '@locks/core'
import { fork } from 'node:child_process'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
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
/** Periods without a pause that a run needs. All of them are, on a machine that is not busy. */
const LEAST_COUNTED = 10

interface Call {
  readonly ran: boolean
  readonly calledAt: number
  readonly ranAt: number
  /** In which period it was made, by the real clock. */
  readonly calledIn: number
  /** In which period it ran, by the real clock. */
  readonly period: number
  readonly lateMs: number
  readonly tookMs: number
}

interface Host {
  /** Calls the job until then, by the real clock. */
  readonly run: (until: number) => Promise<readonly Call[]>
}

/** Resolves once it is connected. */
async function startHost(config: LocksConfig, shiftMs: number): Promise<Host> {
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
  }
}

function isCalls(value: unknown): value is readonly Call[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'object' && 'ran' in one)
}

const stores = serverBackends.filter(({ name }) => ['redis', 'postgres-unique-key'].includes(name))

test.concurrent.each(stores.filter(({ name }) => isSelected(name)))(
  `two hosts whose clocks differ by 2 s run a short job once in each of ${PERIODS} periods, with $name`,
  async ({ service: kind, config }) => {
    await using service = await startService(kind)
    const where = await config(service)
    const hosts = await Promise.all([0, SHIFT_MS].map((shiftMs) => startHost(where, shiftMs)))
    const first = Math.ceil(Date.now() / PERIOD_MS) + 2
    const until = (first + PERIODS + 2) * PERIOD_MS
    const calls = (await Promise.all(hosts.map((host) => host.run(until)))).flat()

    const runs = calls.filter(({ ran }) => ran).toSorted((a, b) => a.ranAt - b.ranAt)
    const gaps = runs.slice(1).map(({ ranAt }, n) => ranAt - (runs[n]?.calledAt ?? 0))
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(MIN_HOLD_MS)

    // A host that stood still may miss its period, or come to the next one.
    const late = calls.filter(({ lateMs, tookMs }) => lateMs + tookMs > LATE_MS)
    const isDisturbed = (period: number): boolean =>
      late.some(({ calledIn }) => Math.abs(calledIn - period) <= 1)
    const counted = Array.from({ length: PERIODS }, (_, n) => first + n)
      .filter((period) => !isDisturbed(period))
      .map((period) => ({ period, runs: runs.filter((one) => one.period === period).length }))
    if (counted.length < LEAST_COUNTED) {
      const lost = late.map(({ lateMs, tookMs }) => lateMs + tookMs)
      const stall = {
        who: 'a host',
        ms: lost.reduce((sum, each) => sum + each, 0),
        longestMs: Math.max(...lost),
      }
      throw new VoidRunError(`only ${counted.length} periods without a pause`, [stall])
    }
    expect(counted.filter((one) => one.runs !== 1)).toEqual([])
    // The other one came to each of them too, and found it taken.
    const refused = calls.filter(({ ran, calledIn }) => !ran && !isDisturbed(calledIn))
    expect(refused.length).toBeGreaterThanOrEqual(counted.length)
  },
)
