import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { launch, looks, minutes, onDesk, onPhone, openWindow, overflow, patience } from './browser.ts'
import { buildSite } from './build.ts'
import { obtainChromium } from './chromium.ts'
import { serve } from './serve.ts'

/** How many tables are wider than the room they have. */
const cutOff = `[...document.querySelectorAll('.vp-doc table, .vp-doc pre')]
  .filter((part) => part.scrollWidth > part.clientWidth + 1).length`

/** The built documentation in a real browser. */
const found = await obtainChromium()

describe('the site in a browser', () => {
  if ('refusal' in found) {
    test('home page, matrix and search', ({ skip }) => skip(found.refusal))
    return
  }
  let dist: string
  let url: string
  let browser: Browser

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'locks-site-'))
    dist = join(folder, 'dist')
    await buildSite(dist)
    const server = await serve(dist)
    url = server.url
    browser = await launch(found.path)
    return async () => {
      await browser.close()
      await server.close()
      await rm(folder, { recursive: true, force: true })
    }
  }, minutes(10))

  test(
    'no page is wider than a phone or has a mistake in its console',
    { timeout: minutes(10) },
    async () => {
      const { page, mistakes } = await openWindow(browser, onPhone)
      const files = await readdir(dist, { recursive: true })
      const wide: string[] = []
      for (const file of files.filter((name) => name.endsWith('.html') && name !== '404.html')) {
        await page.goto(`${url}/${file}`, patience)
        if ((await overflow(page)) > 0) wide.push(file)
      }
      expect(wide).toEqual([])
      expect(mistakes).toEqual([])
    },
  )

  test('on a desk no table and no code of any page is cut off', { timeout: minutes(10) }, async () => {
    const { page } = await openWindow(browser, onDesk)
    const files = await readdir(dist, { recursive: true })
    const cut: string[] = []
    for (const file of files.filter((name) => name.endsWith('.html') && name !== '404.html')) {
      await page.goto(`${url}/${file}`, patience)
      if ((await page.evaluate(cutOff)) !== 0) cut.push(file)
    }
    expect(cut).toEqual([])
  })

  for (const look of looks) {
    const shows = (what: string, path: string, inspect: (page: Page) => Promise<void>): void => {
      test(`${what} (${look.title})`, { timeout: minutes(6) }, async () => {
        const { page, mistakes } = await openWindow(browser, look)
        await page.goto(`${url}${path}`, patience)
        // Before that, a click has no effect.
        await page.waitForFunction(
          'document.querySelector("#app").__vue_app__ !== undefined',
          undefined,
          patience,
        )
        const isDark = await page.evaluate('document.documentElement.classList.contains("dark")')
        expect(isDark).toBe(look.colorScheme === 'dark')
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
      for (const state of ['passed', 'not-tried', 'not-applicable'])
        expect(await page.locator(`table .${state}`).count()).toBeGreaterThan(1)
      if (look.viewport.width > 1_000) expect(await page.evaluate(cutOff)).toBe(0)
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
