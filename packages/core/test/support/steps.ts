import type { Clock } from '../../src/adapter/time.ts'

/** How a scripted store handles one call; `act` carries it out at the store. */
export type Step = <T>(act: () => T, clock: Clock) => Promise<T>

/** Never reaches the store and never settles. */
export const hang: Step = () => new Promise(() => undefined)

/** Acts, and never settles. */
export const swallow: Step = (act) => {
  act()
  return new Promise(() => undefined)
}

/** Rejects without having reached the store. */
export function fail(error: Error = new Error('connection refused')): Step {
  return () => Promise.reject(error)
}

/** Acts, then rejects: the outcome is unknown to the caller. */
export function loseReply(error: Error = new Error('connection reset')): Step {
  return (act) => {
    act()
    return Promise.reject(error)
  }
}

/** Takes `requestMs` to reach the store and `replyMs` to come back. */
export function slow(requestMs: number, replyMs = 0): Step {
  return async (act, clock) => {
    await pause(clock, requestMs)
    const answer = act()
    await pause(clock, replyMs)
    return answer
  }
}

/** Holds calls back until a test lets them go: before they reach the store, or before the reply. */
export function gate({ acted }: { readonly acted: boolean } = { acted: false }): {
  readonly step: Step
  readonly open: () => void
} {
  let open: () => void = () => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return {
    open: () => open(),
    step: async (act) => {
      if (!acted) {
        await opened
        return act()
      }
      const answer = act()
      await opened
      return answer
    },
  }
}

function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    if (ms === 0) resolve()
    else clock.timer(ms, resolve)
  })
}

/** For steps that a test runs outside a store and that need no time. */
export const noClock: Clock = {
  now: () => 0,
  random: () => 0,
  timer: () => {
    throw new Error('this step needs a clock')
  },
}
