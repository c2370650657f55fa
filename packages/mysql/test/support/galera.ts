import { existsSync } from 'node:fs'
import { directories, directoryOf } from '../../../../conformance/services/programs/search.ts'
import { aptInstall, aptRefusal } from '../../../../conformance/services/sources/apt.ts'
import type { Settings } from '../../../../conformance/services/index.ts'

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

/** Why a second node cannot get its first copy of the data; undefined when it can. */
export function whyNoSecondNode(): string | undefined {
  const isHere = (program: string): boolean => directoryOf([program], directories()) !== undefined
  const missing = ['wsrep_sst_rsync', 'rsync'].filter((program) => !isHere(program))
  if (!['ss', 'sockstat', 'lsof'].some(isHere)) missing.push('ss')
  return missing.length === 0 ? undefined : `a second node of Galera needs ${missing.join(' and ')}`
}

/** Settings that make a server a node: of a new cluster, or of the one whose node listens at `joins`. */
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
