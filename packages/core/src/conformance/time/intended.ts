import type { ServerControl, Subject } from '../subject.ts'
import { stallMeter } from './stall-meter.ts'

/** The subject, with the pauses of its server reported to the meter: an intended pause excuses nothing. */
export function withIntendedPauses(subject: Subject): Subject {
  const { server } = subject
  return server === undefined ? subject : { ...subject, server: controlWithIntendedPauses(server) }
}

function controlWithIntendedPauses(server: ServerControl): ServerControl {
  let paused: (() => void) | undefined
  const restart = server.restart?.bind(server)
  return {
    async pause() {
      paused ??= stallMeter.intend('server')
      await server.pause()
    },
    async resume() {
      await server.resume()
      paused?.()
      paused = undefined
    },
    ...(restart && {
      async restart() {
        const over = stallMeter.intend('server')
        try {
          await restart()
        } finally {
          over()
        }
      },
    }),
  }
}
