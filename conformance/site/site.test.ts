import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { scaled } from '../services/timing.ts'
import { buildSite } from './build.ts'
import { chromiumFlags, obtainChromium } from './chromium.ts'
import { serve } from './serve.ts'

/** The built documentation in a real browser: as on a desk and on a phone, in light and in dark. */
const minutes = (count: number): number => scaled(count * 60_000)
const patience = { timeout: minutes(2) }
const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } }
const looks = Object.entries(sizes).flatMap(([device, viewport]) =>
  (['light', 'dark'] as const).map((colorScheme) => ({ device, viewport, colorScheme })),
)
type Look = Omit<(typeof looks)[number], 'device'>

const found = await obtainChromium()

describe('the site in a browser', () => {
  if ('refusal' in found) {
    test('home page, matrix and search', ({ skip }) => skip(found.refusal))
    return
  }
  let folder: string
  let url: string
  let browser: Browser

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'locks-site-'))
    await buildSite(join(folder, 'dist'))
    const server = await serve(join(folder, 'dist'))
    // Its profile is new and empty, and goes with it.
    browser = await chromium.launch({ executablePath: found.path, args: [...chromiumFlags], ...patience })
    url = server.url
    return async () => {
      await browser.close()
      await server.close()
    }
  }, minutes(10))

  afterAll(() => rm(folder, { recursive: true, force: true }))

  test(
    'no page is wider than a phone or has a mistake in its console',
    { timeout: minutes(10) },
    async () => {
      const { page, mistakes } = await open(browser, { viewport: sizes.phone, colorScheme: 'light' })
      const files = await readdir(join(folder, 'dist'), { recursive: true })
      const wide: string[] = []
      for (const file of files.filter((name) => name.endsWith('.html') && name !== '404.html')) {
        await page.goto(`${url}/${file}`, patience)
        if ((await overflow(page)) > 0) wide.push(file)
      }
      expect(wide).toEqual([])
      expect(mistakes).toEqual([])
    },
  )

  for (const look of looks) {
    const { device, colorScheme } = look
    const shows = (what: string, path: string, inspect: (page: Page) => Promise<void>): void => {
      test(`${what} (${device}, ${colorScheme})`, { timeout: minutes(6) }, async () => {
        const { page, mistakes } = await open(browser, look)
        await page.goto(`${url}${path}`, patience)
        await page.waitForFunction(
          'document.querySelector("#app").__vue_app__ !== undefined',
          undefined,
          patience,
        )
        expect(await page.evaluate('document.documentElement.classList.contains("dark")')).toBe(
          colorScheme === 'dark',
        )
        expect(await overflow(page)).toBe(0)
        await inspect(page)
        expect(mistakes).toEqual([])
      })
    }

    shows('the home page has the example and every adapter', '/', async (page) => {
      await page.getByText("locks.with('order:42'").first().waitFor(patience)
      for (const name of ['memory', 'cas', 'redis', 'redlock', 'zookeeper', 'postgres', 'mysql'])
        await page
          .getByRole('link', { name: `@locks/${name}`, exact: true })
          .first()
          .waitFor(patience)
    })

    shows('the matrix has backends and areas, and leads to the rules', '/matrix.html', async (page) => {
      expect(await page.locator('table tbody tr').count()).toBeGreaterThan(3)
      await page.getByRole('link', { name: 'CRASH', exact: true }).click(patience)
      await page.waitForURL('**/spec.html#crash', patience)
      await page.getByText('CRASH-1', { exact: true }).waitFor(patience)
    })

    shows('the search finds a page and leads to it', '/', async (page) => {
      await page.locator('.VPNavBarSearch button').first().click(patience)
      await page.locator('#localsearch-input').fill('lockDelayMs', patience)
      const result = page.locator('#localsearch-list a').first()
      const target = new URL((await result.getAttribute('href', patience)) ?? '', url)
      await result.click(patience)
      await page.waitForURL(target.href, patience)
      await page
        .getByText('lockDelayMs')
        .first()
        .waitFor({ state: 'attached', ...patience })
    })
  }
})

/** By how many pixels the page can be scrolled sideways. */
function overflow(page: Page): Promise<number> {
  return page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
}

/** A window of its own. Whatever its console calls an error is kept. */
async function open(
  browser: Browser,
  { viewport, colorScheme }: Look,
): Promise<{ page: Page; mistakes: string[] }> {
  const context = await browser.newContext({ viewport, colorScheme })
  onTestFinished(() => context.close(), minutes(1))
  const page = await context.newPage()
  const mistakes: string[] = []
  page.on('pageerror', (error) => mistakes.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error') mistakes.push(message.text())
  })
  return { page, mistakes }
}
