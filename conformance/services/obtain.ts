import type { Supply } from './launcher.ts'
import type { Program } from './programs/program.ts'
import type { ServiceKind } from './service.ts'
import { aptInstall, aptRefusal } from './sources/apt.ts'
import { findDockerEngine } from './sources/docker-engine.ts'
import { variables } from './sources/environment.ts'
import { localSupply } from './sources/local.ts'
import { topologies } from './topologies/index.ts'

/** Software that is not here, and where it was looked for. */
interface Missing {
  readonly program: Program
  readonly tried: readonly string[]
}

/**
 * Obtains the software for all of these kinds: from a Docker engine, from this machine, and what is then
 * still missing in one go from Debian's packages.
 */
export async function obtain(kinds: readonly ServiceKind[]): Promise<ReadonlyMap<ServiceKind, Supply>> {
  const supplies = new Map<Program, Supply>()
  const missing: Missing[] = []
  for (const program of new Set(kinds.map((kind) => topologies[kind].program))) {
    const found = await look(program)
    if ('tried' in found) missing.push(found)
    else supplies.set(program, found)
  }
  if (missing.length > 0) {
    const refusal = aptRefusal()
    if (refusal !== undefined) throw new Error(explain(kinds, missing, refusal))
    await aptInstall(missing.flatMap(({ program }) => program.packages))
    for (const { program } of missing) supplies.set(program, installed(program))
  }
  return new Map(
    kinds.flatMap((kind) => {
      const supply = supplies.get(topologies[kind].program)
      return supply === undefined ? [] : [[kind, supply] as const]
    }),
  )
}

/** An image that could not be pulled is not asked for again and again. */
const notFromContainers = new Map<Program, string>()

async function look(program: Program): Promise<Supply | Missing> {
  const tried: string[] = []
  const found = await findDockerEngine()
  const engine = typeof found === 'string' ? found : (notFromContainers.get(program) ?? found)
  if (typeof engine === 'string') tried.push(`containers: ${engine}`)
  else {
    try {
      // Only now: the library takes half a second to load, and most machines do without.
      const { containerSupply } = await import('./sources/containers.ts')
      return await containerSupply(program, engine)
    } catch (error) {
      const why = error instanceof Error ? error.message : 'unknown error'
      process.stderr.write(
        `locks: there is a Docker engine, but ${program.name} cannot come from it: ${why}\n`,
      )
      notFromContainers.set(program, why)
      tried.push(`containers: ${why}`)
    }
  }
  const locate = program.locate()
  if (locate !== undefined) return localSupply(program, locate, 'binary')
  tried.push('this machine: not installed, neither on PATH nor in the usual places')
  return { program, tried }
}

function installed(program: Program): Supply {
  const locate = program.locate()
  if (locate !== undefined) return localSupply(program, locate, 'apt')
  throw new Error(`${program.packages.join(' ')} installed, and still ${program.name} cannot be found`)
}

function explain(kinds: readonly ServiceKind[], missing: readonly Missing[], refusal: string): string {
  return missing
    .flatMap(({ program, tried }) => [
      `${program.name} is not available. Tried:`,
      ...[...tried, `apt: ${refusal}`].map((one) => `  - ${one}`),
      `Install ${program.advice},`,
      `or set ${kinds
        .filter((kind) => topologies[kind].program === program)
        .flatMap((kind) => variables[kind])
        .join(' or ')}.`,
    ])
    .join('\n')
}
