import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Browser } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { launch, looks, minutes, openWindow, overflow, patience } from './browser.ts'
import { obtainChromium } from './chromium.ts'

/** The page that `locks conformance --html` writes, in a real browser. */
const command = join(import.meta.dirname, '../../../packages/cli/dist/locks.js')
const run = promisify(execFile)
const found = await obtainChromium()

describe('the report of a conformance run in a browser', () => {
  if ('refusal' in found) {
    test('rules and recorded holds', ({ skip }) => skip(found.refusal))
    return
  }
  let url: string
  let browser: Browser

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'locks-report-'))
    const file = join(folder, 'report.html')
    await run(process.execPath, [command, 'conformance', 'memory:', '--only', 'OWN,UNIQ-2', '--html', file])
    url = pathToFileURL(file).href
    browser = await launch(found.path)
    return async () => {
      await browser.close()
      await rm(folder, { recursive: true, force: true })
    }
  }, minutes(10))

  for (const look of looks)
    test(`it shows rules and recorded holds (${look.title})`, { timeout: minutes(6) }, async () => {
      const { page, mistakes } = await openWindow(browser, look)
      await page.goto(url, patience)
      await page.getByText('OWN-1', { exact: false }).first().waitFor(patience)
      await page
        .locator('svg rect')
        .first()
        .waitFor({ state: 'attached', ...patience })
      expect(await overflow(page)).toBe(0)
      expect(mistakes).toEqual([])
    })
})
