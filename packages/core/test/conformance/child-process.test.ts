import { startChild } from '@locks/core/conformance'
import { expect, onTestFinished, test } from 'vitest'

test('a child that died unseen fails the calls to it, and says how it ended', async () => {
  const child = await startChild()
  onTestFinished(() => child.kill())
  process.kill(child.pid, 'SIGKILL')
  // It is dead before this process can notice.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
  const ended = `child process ${child.pid} ended by SIGKILL`
  await expect(child.call('contended', { lock: 'a' })).rejects.toThrow(ended)
  await expect(child.call('contended', { lock: 'a' })).rejects.toThrow(ended)
})
