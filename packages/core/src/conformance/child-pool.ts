import { startChildProgram } from './child-process.ts'
import type { Child, ChildProgram } from './child-process.ts'

/** Starting a process and loading an adapter costs more CPU than most cases, so processes are used again. */
const idle: ChildProgram[] = []
const MOST_IDLE = 4
const RESET_MS = 1_000

export interface Borrowed {
  readonly child: Child
  /** Ends the process, unless it can serve again. */
  readonly giveBack: () => Promise<void>
}

export async function borrowChild(): Promise<Borrowed> {
  const program = takeIdle() ?? (await startChildProgram())
  return { child: program.child, giveBack: () => giveBack(program) }
}

function takeIdle(): ChildProgram | undefined {
  for (let next = idle.pop(); next !== undefined; next = idle.pop())
    if (next.healthy) {
      next.busy()
      return next
    }
  return undefined
}

async function giveBack(program: ChildProgram): Promise<void> {
  const { child } = program
  if (program.healthy && idle.length < MOST_IDLE && (await isReset(child))) {
    program.idle()
    idle.push(program)
  } else await child.kill()
}

/** How long to wait for a client to close before its process is ended. */
async function isReset(child: Child): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), RESET_MS)))
  const reset = child.call('reset', {}).then(
    () => true,
    () => false,
  )
  try {
    return await Promise.race([reset, late])
  } finally {
    clearTimeout(timer)
  }
}
