import type { Recorder } from '@locks/core/conformance'

/** The protected resource: it refuses a write with a lower fence than it has seen. */
export function fencedResource(recorder: Recorder): (name: string, fence: bigint) => boolean {
  const highest = new Map<string, bigint>()
  return (name, fence) => {
    const accepted = fence >= (highest.get(name) ?? 0n)
    if (accepted) highest.set(name, fence)
    recorder.record({ type: accepted ? 'resource-accepted' : 'resource-rejected', name, fence })
    return accepted
  }
}
