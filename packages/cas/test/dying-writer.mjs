// One put to a file store by a process that kills itself at a given file system call. Modules are loaded before the
// calls are counted: what the store imported follows `syncBuiltinESMExports`.
import { fileStore } from '@locks/cas'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const [directory = '', key = '', value = '', expected = '', dieAt = ''] = process.argv.slice(2)
let calls = 0

function step() {
  calls += 1
  if (calls === Number(dieAt)) process.kill(process.pid, 'SIGKILL')
}

/** @param {fs.promises.FileHandle} handle */
function watchHandle(handle) {
  const writeFile = handle.writeFile.bind(handle)
  const datasync = handle.datasync.bind(handle)
  const sync = handle.sync.bind(handle)
  const close = handle.close.bind(handle)
  /** @type {(data: string) => Promise<void>} */
  const inHalves = async (data) => {
    step()
    await handle.write(data.slice(0, data.length / 2))
    step()
    await writeFile(data.slice(data.length / 2))
  }
  return Object.assign(handle, {
    writeFile: inHalves,
    datasync: () => (step(), datasync()),
    sync: () => (step(), sync()),
    close: () => (step(), close()),
  })
}

const { open, mkdir, readdir, readFile, rename, rm, unlink } = fs.promises
Object.assign(fs.promises, {
  /** @param {Parameters<typeof open>} args */
  open: async (...args) => (step(), watchHandle(await open(...args))),
  /** @param {Parameters<typeof mkdir>} args */
  mkdir: (...args) => (step(), mkdir(...args)),
  /** @param {Parameters<typeof readdir>} args */
  readdir: (...args) => (step(), readdir(...args)),
  /** @param {Parameters<typeof readFile>} args */
  readFile: (...args) => (step(), readFile(...args)),
  /** @param {Parameters<typeof rename>} args */
  rename: (...args) => (step(), rename(...args)),
  /** @param {Parameters<typeof rm>} args */
  rm: (...args) => (step(), rm(...args)),
  /** @param {Parameters<typeof unlink>} args */
  unlink: (...args) => (step(), unlink(...args)),
})
syncBuiltinESMExports()

const answer = await fileStore({ directory })().put(
  key,
  value,
  expected === '' ? undefined : BigInt(expected),
  true,
)
process.exitCode = 'version' in answer ? 0 : 3
