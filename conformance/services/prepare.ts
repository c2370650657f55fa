import { obtain } from './obtain.ts'
import type { ServiceKind, Source } from './service.ts'
import { givenService } from './sources/environment.ts'

/**
 * Makes sure that services of these kinds can be started, before any test waits for one: pulls the images
 * or installs the packages that are missing, all in one go. Says where each kind will come from.
 */
export async function prepareServices(
  kinds: readonly ServiceKind[],
): Promise<ReadonlyMap<ServiceKind, Source>> {
  const given = kinds.filter((kind) => givenService(kind) !== undefined)
  const supplies = await obtain(kinds.filter((kind) => !given.includes(kind)))
  return new Map([
    ...given.map((kind) => [kind, 'environment'] as const),
    ...[...supplies].map(([kind, { source }]) => [kind, source] as const),
  ])
}
