import type { Redis } from 'ioredis'

/** What ioredis writes commands to in place of the socket. */
export interface Batch {
  readonly isPipeline: true
  readonly destination: { readonly redis: Redis }
  write(text: string | Buffer): void
}

/** So many commands leave at once, so that the server begins while this side goes on. */
const MAX_COMMANDS = 16

/**
 * Commands of one turn of the event loop leave together. Only for a client that nobody else writes
 * to: what is written past this would overtake it.
 */
export function batchOf(client: Redis): Batch {
  let text = ''
  let commands = 0
  let scheduled = false
  let socket: Redis['stream'] | undefined

  function leave(): void {
    const leaving = text
    text = ''
    commands = 0
    // A connection that broke takes nothing: ioredis writes again what was not answered.
    if (leaving !== '' && socket === client.stream && socket.writable) socket.write(leaving)
  }

  function endOfTurn(): void {
    scheduled = false
    leave()
  }

  return {
    isPipeline: true,
    destination: { redis: client },
    write(command) {
      if (socket !== client.stream) {
        text = ''
        commands = 0
        socket = client.stream
      }
      text += String(command)
      commands += 1
      if (commands >= MAX_COMMANDS) leave()
      else if (!scheduled) {
        scheduled = true
        process.nextTick(endOfTurn)
      }
    },
  }
}
