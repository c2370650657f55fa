import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scaled } from '../../conformance/services/timing.ts'
import { start, workplace } from '../test-support/program.ts'
import type { Program } from '../test-support/program.ts'

const program = join(import.meta.dirname, 'main.mjs')

/** The first of them to lead under a higher fence. */
async function nextLeader(
  programs: readonly Program[],
  fence: bigint,
): Promise<{ leader: Program; fence: bigint }> {
  const elected = programs.map(async (leader) => {
    const found = await leader.until((output) => {
      const fences = [...output.matchAll(/leading under fence (\d+)\n/g)].map(([, text]) => BigInt(text ?? 0))
      return fences.find((each) => each > fence)
    })
    return { leader, fence: found }
  })
  return Promise.any(elected)
}

test(
  'a leader that dies is followed; one that was stopped steps down',
  { timeout: scaled(60_000) },
  async () => {
    const cwd = await workplace()
    const env = { TTL_MS: String(scaled(3_000)) }
    const programs = [1, 2, 3].map(() => start(program, { cwd, env }))

    const first = await nextLeader(programs, 0n)
    first.leader.kill('SIGKILL')
    const others = programs.filter((each) => each !== first.leader)
    const second = await nextLeader(others, first.fence)
    expect(second.fence).toBeGreaterThan(first.fence)

    second.leader.kill('SIGSTOP')
    const last = others.filter((each) => each !== second.leader)
    const third = await nextLeader(last, second.fence)
    second.leader.kill('SIGCONT')
    await second.leader.said(new RegExp(`stepped down from fence ${second.fence}\n`))

    third.leader.kill('SIGTERM')
    expect((await third.leader.ended).exitCode).toBe(0)
    await nextLeader([second.leader], third.fence)
    second.leader.kill('SIGTERM')
    expect((await second.leader.ended).exitCode).toBe(0)
  },
)
