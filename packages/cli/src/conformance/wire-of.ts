import { postgresFrames, redisFrames, zookeeperFrames } from '@locks/core/conformance'
import type { Frames, Wire } from '@locks/core/conformance'
import { routeOf } from '../route.ts'

/** Where replies end. A MySQL client has one pending request, so everything that arrives is one reply. */
const frames: ReadonlyMap<string, Frames> = new Map([
  ['redis', redisFrames],
  ['postgres', postgresFrames],
  ['postgresql', postgresFrames],
  ['zookeeper', zookeeperFrames],
])

/** Routes a URL with one server through a proxy. */
export function wireOf(url: string): { readonly wire?: Wire } {
  const route = routeOf(url)
  const [target, ...others] = route.targets
  if (target === undefined || others.length > 0) return {}
  const own = frames.get((/^([^:]+):/.exec(url)?.[1] ?? '').toLowerCase())
  const via: Wire['via'] = (proxy) => route.through([proxy])
  return { wire: { target, via, ...(own !== undefined && { frames: own }) } }
}
