import type { Settings } from '../service.ts'
import { redisCommand } from '../wire/redis.ts'
import type { Program, ServerPlan } from './program.ts'
import { directories, directoryOf, onPath } from './search.ts'

export const redisProgram: Program = {
  name: 'redis',
  packages: ['redis-server'],
  advice: 'redis-server (Debian and Ubuntu: redis-server, Homebrew: redis)',
  image: 'redis:7.4',
  refusesRoot: false,
  stopSignal: 'SIGTERM',
  locate() {
    const directory = directoryOf(['redis-server'], directories())
    return directory === undefined ? undefined : onPath(directory)
  },
  locateInImage: '',
}

/** Nothing is kept beyond the process, unless the caller asks for it. */
const defaults: Settings = { save: '', appendonly: 'no' }

export interface RedisPlan {
  readonly name: string
  readonly port: number
  readonly settings?: Settings | undefined
  /** Further lines of the settings file. */
  readonly lines?: readonly string[]
  readonly sentinel?: boolean
}

export function redisServer({
  name,
  port,
  settings = {},
  lines = [],
  sentinel = false,
}: RedisPlan): ServerPlan {
  const own = sentinel ? settings : { ...defaults, ...settings }
  return {
    name,
    port,
    url: `redis://127.0.0.1:${port}`,
    launch: (listen) => ({
      files: {
        'redis.conf': [
          `port ${port}`,
          `bind ${listen}`,
          'protected-mode no',
          'dir data',
          ...Object.entries(own).map(([key, value]) => `${key} ${value === '' ? '""' : value}`),
          ...lines,
        ].join('\n'),
      },
      run: `redis-server redis.conf${sentinel ? ' --sentinel' : ''}`,
    }),
    ready: (address) => redisCommand(address, 'PING'),
  }
}
