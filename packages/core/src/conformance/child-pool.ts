import { startChildProgram } from './child-process.ts'
import type { Child, ChildProgram } from './child-process.ts'

/** To start a process and load an adapter costs more CPU than most cases. Those that ended well serve again. */
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

/** A client that does not close soon is not waited for: the process ends. */
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
