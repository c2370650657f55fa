import { existsSync } from 'node:fs'
import { aptInstall, aptRefusal } from '../../../conformance/services/sources/apt.ts'
import type { Settings } from '../../../conformance/services/index.ts'

const places = [
  '/usr/lib/galera/libgalera_smm.so',
  '/usr/lib64/galera-4/libgalera_smm.so',
  '/opt/homebrew/lib/libgalera_smm.so',
]

function find(): string | undefined {
  return places.find((path) => existsSync(path))
}

/** Why there is no Galera to test with; undefined when there is. Installs it if that is possible. */
export async function whyNoGalera(): Promise<string | undefined> {
  if (find() !== undefined) return undefined
  const refusal = aptRefusal()
  if (refusal !== undefined) return `Galera is not installed, and cannot be: ${refusal}`
  await aptInstall(['galera-4'])
  return find() === undefined ? 'galera-4 was installed and still cannot be found' : undefined
}

/** What makes a server a node: of a new cluster, or of that of the node which listens at `joins`. */
export function galeraSettings(port: number, receives: number, joins?: number): Settings {
  return {
    'wsrep-on': 'ON',
    'wsrep-provider': find() ?? '',
    'wsrep-cluster-address': joins === undefined ? 'gcomm://' : `gcomm://127.0.0.1:${joins}`,
    'wsrep-node-address': '127.0.0.1',
    'wsrep-sst-receive-address': `127.0.0.1:${receives}`,
    'wsrep-provider-options': `gmcast.listen_addr=tcp://127.0.0.1:${port};gcache.size=16M`,
    'binlog-format': 'ROW',
  }
}
