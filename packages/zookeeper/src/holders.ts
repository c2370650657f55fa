import { readHolder, writeHolder } from '@locks/core/adapter'
import type { AcquireRequest, Holder } from '@locks/core/adapter'
import type { Requests } from './requests.ts'

export function describe(request: AcquireRequest): Buffer {
  return Buffer.from(writeHolder(request))
}

/** Who made a node; undefined when it is gone. */
export async function holderOf(requests: Requests, path: string): Promise<Holder | undefined> {
  const node = await requests.data(path)
  if (node === undefined) return undefined
  const { data, stat } = node
  const fence = stat.czxid.readBigInt64BE()
  const since = Number(stat.ctime.readBigInt64BE())
  const text = data?.toString('utf8') ?? ''
  // Curator writes the address of its host.
  const described = /^[\d.:a-fA-F]{3,45}$/.test(text) ? { owner: text } : readHolder(text)
  return { owner: path.slice(path.lastIndexOf('/') + 1), ...described, fence, since }
}
