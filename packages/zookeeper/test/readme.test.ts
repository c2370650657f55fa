import { execFile } from 'node:child_process'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { testBed } from './support/bed.ts'
import { ms } from './support/raw-client.ts'

const bed = testBed()
const home = join(import.meta.dirname, '..')

test('the example in the README runs', { timeout: ms(60_000) }, async () => {
  const readme = await readFile(join(home, 'README.md'), 'utf8')
  const example = /^```js\n([^]*?)^```/m.exec(readme)?.[1] ?? ''
  // Inside the package, so that its name resolves; with the test server in place of the example's.
  const file = join(home, 'dist', `readme-${process.pid}.mjs`)
  await writeFile(
    file,
    `${example.replace(/servers: '[^']*'/, `servers: '${bed.servers}'`)}\nawait locks.close()\n`,
  )
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [file], { timeout: 120_000 })
    expect(stdout).toMatch(/^\d+n\n$/)
  } finally {
    await rm(file)
  }
})
