import { assertInTime, eventually } from '@locks/core/conformance'

/** What a test has to see passes by itself, at the latest when `over` settles. */
interface Passing {
  readonly lastsMs: number
  readonly over: Promise<unknown>
}

/** Resolves once `look` finds it. To have missed it because the machine stood still makes the run void. */
export async function seen(
  what: string,
  { lastsMs, over }: Passing,
  look: () => Promise<boolean>,
): Promise<void> {
  const startedAt = performance.now()
  let ended = false
  const end = (): void => void (ended = true)
  over.then(end, end)
  const found = await eventually(what, 10_000, async () => ((await look()) ? 'seen' : ended && 'missed'))
  if (found === 'seen') return
  await assertInTime(`a look at this: ${what}`, lastsMs, performance.now() - startedAt)
  throw new Error(`it was over before it was seen: ${what}`)
}
