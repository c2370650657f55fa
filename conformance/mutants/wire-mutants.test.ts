import { isVoidRun, lineFrames } from '@locks/core/conformance'
import type * as kit from '@locks/core/conformance'
import { describe, expect, onTestFinished, test } from 'vitest'
import type * as store from '../reference/src/index.ts'
import { link } from './edits.ts'
import { copyOf, suiteOf } from './mutant.ts'
import type { Edit, Mutant } from './mutant.ts'

/** Bugs of how a client treats its connection, which only a wire reveals. */
const wireMutants: readonly Mutant[] = [
  {
    bug: 'replies are paired with requests by their order, without a look at what they answer',
    rule: 'CONN-4',
    edits: [
      link(
        'return this.#greeted(helloAt, now);\n',
        'return this.#greeted(helloAt, now);\n        [id] = this.#pending.keys();\n',
      ),
    ],
  },
  {
    bug: 'after several refusals the client never connects again',
    rule: 'CONN-1',
    edits: [link('this.#failures++', '(this.#closed = this.#failures > 1, this.#failures++)')],
  },
  {
    bug: 'after a handshake that was cut, replies go to the queued calls in the wrong order',
    rule: 'CONN-2',
    edits: [
      link(
        '#lost() {',
        '#lost() {\n        this.cut = this.#sync === undefined && this.#socket.bytesRead > 0;',
      ),
      link(
        'return this.#greeted(helloAt, now);\n',
        `return this.#greeted(helloAt, now);
        if (this.cut)
            id = [...this.#pending.keys()].at(-1);
`,
      ),
    ],
  },
  {
    bug: 'a refusal of a call that was sent again counts as its own grant by the first sending',
    rule: 'CONN-3',
    edits: [
      link(
        'pending.settle({ value: ok, sends: pending.sends });',
        `pending.settle({ value: pending.sends > 1 && ok?.busy ? grantOf(pending.call, ok) : ok });`,
      ),
      link(
        'function closedError() {',
        `function grantOf({ args: [{ name, attemptId, ttlMs }] }, { holder }) {
    return { name, attemptId, ttlMs, fence: holder.fence };
}
function closedError() {`,
      ),
    ],
  },
]

/** The suite of a mutated copy of the reference adapter, and a server for it. */
async function breed(edits: readonly Edit[]): Promise<{
  readonly cases: readonly kit.ConformanceCase[]
  readonly dispose: () => Promise<void>
}> {
  const copy = await copyOf(['core', 'memory', 'reference'], edits)
  const { conformance } = await suiteOf(copy)
  const reference = await copy.load('reference', 'index.js')
  if (!isReference(reference)) throw new Error('the mutant has no server')
  const server = await reference.startReferenceServer()
  const { config, via } = server
  const cases = await conformance({
    name: 'mutant',
    config,
    wire: { target: server, via, frames: lineFrames },
  })
  return {
    cases,
    async dispose() {
      await server.stop()
      await copy.dispose()
    },
  }
}

function isReference(module: unknown): module is typeof store {
  return typeof module === 'object' && module !== null && 'startReferenceServer' in module
}

function find(cases: readonly kit.ConformanceCase[], id: string): kit.ConformanceCase {
  const found = cases.find((one) => one.id === id)
  if (found === undefined || found.untested !== undefined) throw new Error(`${id} cannot run`)
  return found
}

describe('mutants behind a wire', () => {
  test('the healthy adapter passes every rule that must catch a mutant', async () => {
    const { cases, dispose } = await breed([])
    onTestFinished(dispose)
    for (const rule of ['CONN-1', 'CONN-2', 'CONN-3', 'CONN-4']) await find(cases, rule).run()
  })

  for (const { bug, rule, edits } of wireMutants)
    test(`${rule} catches: ${bug}`, async () => {
      const { cases, dispose } = await breed(edits)
      onTestFinished(dispose)
      await find(cases, 'NAME-1').run()
      const error: unknown = await find(cases, rule)
        .run()
        .then(
          () => undefined,
          (reason: unknown) => reason,
        )
      // Void is neither: this test then runs again.
      if (isVoidRun(error)) throw error
      expect(error, 'it was not caught').toBeInstanceOf(Error)
    })
})
