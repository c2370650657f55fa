import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** Longer than all of them together are ever silent, even on a busy machine. */
const PATIENCE_MS = 30_000

/** @typedef {import('./shop.mjs').News | { news: 'ready', port: number }} News */

/**
 * @template {News['news']} K
 * @typedef {Extract<News, { news: K }>} NewsOf
 */

/** Every process of the demo that is still alive. @type {Set<import('node:child_process').ChildProcess>} */
const alive = new Set()

/** Kills them, paused or not, and waits until they are gone. */
export async function killAll() {
  const gone = [...alive].map((child) => once(child, 'exit'))
  for (const child of alive) child.kill('SIGKILL')
  await Promise.all(gone)
}

process.on('exit', () => void killAll()) // also after an error

/** When one of them last said anything: while it is served, others wait. */
let lastNewsAt = 0

/**
 * Starts a program of this folder as a process.
 *
 * @param {string} program
 * @param {string} name
 */
export function hire(program, name) {
  const script = fileURLToPath(new URL(program, import.meta.url))
  const child = fork(script, {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  alive.add(child)
  child.once('exit', () => alive.delete(child))
  child.on('message', () => (lastNewsAt = performance.now()))

  return {
    name,
    pid: child.pid ?? 0,

    /** @param {import('./shop.mjs').Task} task */
    tell: (task) => void child.send(task),

    /** @param {NodeJS.Signals} signal */
    signal: (signal) => void child.kill(signal),

    /**
     * @param {(news: News) => void} listener
     * @returns {() => void} stops listening
     */
    listen(listener) {
      child.on('message', listener)
      return () => void child.off('message', listener)
    },

    /**
     * The next news of that kind. Ask before it can happen.
     *
     * @template {News['news']} K
     * @param {K} kind
     * @returns {Promise<NewsOf<K>>}
     */
    next(kind) {
      /** @type {Promise<NewsOf<K>>} */
      const told = new Promise((resolve, reject) => {
        const askedAt = performance.now()
        let timer = setTimeout(judge, PATIENCE_MS)
        function judge() {
          const silentMs = performance.now() - Math.max(askedAt, lastNewsAt)
          if (silentMs < PATIENCE_MS) timer = setTimeout(judge, PATIENCE_MS - silentMs)
          else fail(`said nothing of "${kind}", and nobody anything for ${PATIENCE_MS / 1000} s`)
        }
        const onExit = () => fail('ended')
        /** @param {News} news */
        const onNews = (news) => {
          if (news.news === 'failed') return fail(news.message)
          if (!isKind(news, kind)) return
          stop()
          resolve(news)
        }
        /** @param {string} why */
        function fail(why) {
          stop()
          reject(new Error(`${name}: ${why}`))
        }
        function stop() {
          clearTimeout(timer)
          child.off('message', onNews).off('exit', onExit)
        }
        child.on('message', onNews).once('exit', onExit)
      })
      // The caller that awaits it later handles the rejection.
      told.catch(() => undefined)
      return told
    },

    /** Asks it to end and waits until it is gone. */
    async dismiss() {
      if (!alive.has(child)) return
      const gone = once(child, 'exit')
      if (child.connected) child.disconnect()
      await gone
    },
  }
}

/** @typedef {ReturnType<typeof hire>} Worker */

/**
 * @template {News['news']} K
 * @param {News} news
 * @param {K} kind
 * @returns {news is NewsOf<K>}
 */
function isKind(news, kind) {
  return news.news === kind
}
