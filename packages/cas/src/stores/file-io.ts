import { open } from 'node:fs/promises'
import { codeOf } from '../errors.ts'

export async function writeWhole(file: string, value: string, durable: boolean): Promise<void> {
  const handle = await open(file, 'wx')
  try {
    await handle.writeFile(value)
    if (durable) await handle.datasync()
  } finally {
    await handle.close()
  }
}

/** Makes the entries of a directory survive a crash of the host. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Undefined when there is no such file. */
export async function ifThere<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}
