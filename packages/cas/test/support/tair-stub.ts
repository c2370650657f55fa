import { createServer } from 'node:net'
import type { Socket } from 'node:net'

/**
 * The TairString commands as published, over RESP: just enough to check what is sent and how each
 * answer is understood on a machine without the module.
 */
export interface TairStub {
  readonly url: string
  /** What was sent, without what a client says when it connects. */
  readonly commands: string[][]
  readonly records: Map<string, { value: string; version: number }>
  /** Replies as a server without the module. */
  unknown: boolean
  run(words: string[]): string
  /** Runs `act` just before the next such command. */
  beforeNext(command: string, act: () => void): void
  close(): Promise<void>
}

// Text is bytes here, one character each, so that lengths are what the protocol means.
const bulk = (text: string): string => `$${text.length}\r\n${text}\r\n`
const nothing = '$-1\r\n'

/** Of a server without the module, by what the command begins with: EX…, and COMMAND INFO about one of these. */
const unknownReplies: ReadonlyMap<string, string> = new Map([
  ['EX', "-ERR unknown command 'EX', with args beginning with: \r\n"],
  ['CO', '*1\r\n*-1\r\n'],
])

export async function startTairStub(): Promise<TairStub> {
  const records: TairStub['records'] = new Map()
  const commands: string[][] = []
  const sockets = new Set<Socket>()
  const listeners = new Map<string, Set<Socket>>()
  const acts = new Map<string, () => void>()

  function exset(key: string, value: string, options: readonly string[]): string {
    const current = records.get(key)
    if (options.includes('NX') && current !== undefined) return nothing
    const optionOf = (name: string): number | undefined => {
      const at = options.indexOf(name)
      return at < 0 ? undefined : Number(options[at + 1])
    }
    const [ver, abs] = [optionOf('VER'), optionOf('ABS')]
    // Only a key that is there has a version to differ from.
    if (current !== undefined && ver !== undefined && ver !== 0 && ver !== current.version)
      return '-ERR update version is stale\r\n'
    records.set(key, { value, version: abs ?? (current?.version ?? 0) + 1 })
    return '+OK\r\n'
  }

  function excas(key: string, value: string, version: number): string {
    const current = records.get(key)
    if (current === undefined) return ':-1\r\n'
    if (current.version !== version)
      return `*3\r\n+ERR update version is stale\r\n${bulk(current.value)}:${current.version}\r\n`
    records.set(key, { value, version: version + 1 })
    return `*3\r\n+OK\r\n+\r\n:${version + 1}\r\n`
  }

  function run([command = '', key = '', value = '', ...rest]: string[], socket?: Socket): string {
    const current = records.get(key)
    switch (command.toUpperCase()) {
      case 'EXGET':
        return current === undefined ? nothing : `*2\r\n${bulk(current.value)}:${current.version}\r\n`
      case 'EXSET':
        return exset(key, value, rest)
      case 'EXCAS':
        return excas(key, value, Number(rest[0]))
      case 'PUBLISH':
        for (const other of listeners.get(key) ?? [])
          other.write(`>3\r\n${bulk('message')}${bulk(key)}${bulk(value)}`, 'latin1')
        return ':0\r\n'
      case 'SUBSCRIBE':
        if (socket !== undefined) listeners.set(key, (listeners.get(key) ?? new Set()).add(socket))
        return `>3\r\n${bulk('subscribe')}${bulk(key)}:1\r\n`
      case 'UNSUBSCRIBE':
        if (socket !== undefined) listeners.get(key)?.delete(socket)
        return `>3\r\n${bulk('unsubscribe')}${bulk(key)}:0\r\n`
      case 'TIME': {
        const micros = String(Math.trunc((performance.timeOrigin + performance.now()) * 1_000))
        return `*2\r\n${bulk(micros.slice(0, -6))}${bulk(micros.slice(-6))}`
      }
      case 'SCAN': {
        const pattern = rest[rest.indexOf('MATCH') + 1] ?? ''
        const keys = [...records.keys()].filter((name) => name.startsWith(pattern.slice(0, -1)))
        return `*2\r\n${bulk('0')}*${keys.length}\r\n${keys.map(bulk).join('')}`
      }
      case 'EVAL':
        // The script that follows a command to see that replies are in step.
        return bulk(rest.at(-1) ?? '')
      case 'INFO':
        return bulk('redis_version:7.0.15\r\nmaxmemory_policy:volatile-lru\r\naof_enabled:1\r\n')
      default:
        return '+OK\r\n'
    }
  }

  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    let received = ''
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
    socket.setEncoding('latin1').on('data', (text: string) => {
      received += text
      for (let parsed = parse(received); parsed !== undefined; parsed = parse(received)) {
        received = parsed.rest
        const [command = ''] = parsed.words
        if (/^(EX|PUBLISH|TIME)/.test(command)) commands.push(parsed.words)
        acts.get(command)?.()
        acts.delete(command)
        const reply = stub.unknown ? unknownReplies.get(command.slice(0, 2)) : undefined
        socket.write(reply ?? run(parsed.words, socket), 'latin1')
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined

  const stub: TairStub = {
    url: `redis://127.0.0.1:${port}`,
    commands,
    records,
    unknown: false,
    run,
    beforeNext: (command, act) => void acts.set(command, act),
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
  return stub
}

/** One command of the form every client sends: an array of bulk strings. */
function parse(text: string): { words: string[]; rest: string } | undefined {
  const head = /^\*(\d+)\r\n/.exec(text)
  if (head === null) return undefined
  let at = head[0].length
  const words: string[] = []
  for (let n = 0; n < Number(head[1]); n += 1) {
    const size = /^\$(\d+)\r\n/.exec(text.slice(at))
    if (size === null) return undefined
    const [start, length] = [at + size[0].length, Number(size[1])]
    if (text.length < start + length + 2) return undefined
    words.push(text.slice(start, start + length))
    at = start + length + 2
  }
  return { words, rest: text.slice(at) }
}
