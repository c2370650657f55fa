import { checkHistory, summarise } from '@locks/core/conformance'
import type { Summary } from '@locks/core/conformance'
import { LONGEST_LOCK_DELAY_MS, LONGEST_TTL_MS } from './choices.ts'
import type { SimulatedClient } from './client.ts'
import { Faults } from './faults.ts'
import type { Journal, Problem } from './journal.ts'
import { MAX_REPLAY_MS } from './network.ts'
import { QUEUE_PATIENCE_MS } from './store-host.ts'
import { Stage } from './stage.ts'
import type { Sabotage } from './stage.ts'

/** Virtual time after which a run ends even if it did not reach its grants. */
const MAX_RUN_MS = 600_000
/** More would not tell more. */
const MAX_PROBLEMS = 50
/** A name is given to one dead waiter at most before it goes to a live one, and polls are soon. */
const MAX_IDLE_MS = 2 * LONGEST_TTL_MS + LONGEST_LOCK_DELAY_MS + QUEUE_PATIENCE_MS

export interface Outcome {
  readonly problems: readonly Problem[]
  readonly summary: Summary
  readonly journal: Journal
  readonly virtualMs: number
}

/** Plays one run. Equal arguments give equal outcomes, event by event. */
export async function simulate(seed: number, grants: number, sabotage: Sabotage = {}): Promise<Outcome> {
  const stage = new Stage(seed, sabotage)
  const { journal, random, world } = stage
  const onUnhandled = (reason: unknown): void =>
    journal.problem('outcomes', `unhandled rejection: ${String(reason)}`)
  process.on('unhandledRejection', onUnhandled)
  try {
    const faults = new Faults(stage, random.pick(2, 3, 4))
    faults.start(random.pick(3, 4, 5, 6))
    sweepStore(stage)
    await world.run(
      () => journal.grants >= grants || world.now > MAX_RUN_MS || journal.problems.length > MAX_PROBLEMS,
    )
    faults.stop()
    await finish(stage)
  } finally {
    process.off('unhandledRejection', onUnhandled)
  }
  const violations = checkHistory(journal.events, {
    floors: { grants, contendedWaits: grants / 10, faults: grants / 50 },
    maxIdleMs: MAX_IDLE_MS,
    crashReleaseMs: LONGEST_TTL_MS + MAX_IDLE_MS,
  })
  const problems = violations.map(({ invariant, message, events }) => ({
    check: invariant,
    message: `${message} (t = ${events.map(({ t }) => t.toFixed(1)).join(', ')})`,
  }))
  return {
    problems: [...problems, ...journal.problems],
    summary: summarise(journal.events),
    journal,
    virtualMs: world.now,
  }
}

function sweepStore(stage: Stage): void {
  stage.host.sweep()
  stage.world.at(stage.world.now + QUEUE_PATIENCE_MS / 2, () => sweepStore(stage), stage.host.process)
}

/** Lets all tasks finish, closes the clients, and looks for leftovers. */
async function finish(stage: Stage): Promise<void> {
  const { clients, departed, host, journal, world } = stage
  stage.ending = true
  await pass(stage, 20_000)
  const everyone: SimulatedClient[] = [...clients, ...departed].filter(({ process }) => !process.crashed)
  for (const { calls } of everyone)
    for (const call of calls) journal.problem('leftovers', `${call} never settled`)
  for (const client of clients)
    if (!client.process.crashed) world.at(world.now, () => void client.close(), client.process)
  await pass(stage, 3 * stage.storeTimeoutMs + LONGEST_TTL_MS + LONGEST_LOCK_DELAY_MS + MAX_REPLAY_MS)
  for (const { process, calls } of everyone) {
    for (const call of calls) journal.problem('leftovers', `${call} never settled`)
    if (process.timers > 0) journal.problem('leftovers', `${process.id} left ${process.timers} timers behind`)
  }
  for (const name of stage.names) {
    const { held, waiters } = await host.adapter.inspect(name)
    if (held) journal.problem('leftovers', `the store still has a holder of ${name}`)
    if (waiters !== 0) journal.problem('leftovers', `the store still has ${waiters} waiters for ${name}`)
  }
}

async function pass(stage: Stage, ms: number): Promise<void> {
  const until = stage.world.now + ms
  await stage.world.run(() => stage.world.now >= until)
}
