import { chromium } from 'playwright-core'
import type { Browser, Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { chromiumFlags } from './chromium.ts'

/** Bounds for a machine that does other things too. */
export const minutes = (count: number): number => scaled(count * 60_000)
export const patience: { readonly timeout: number } = { timeout: minutes(2) }

const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } }

export interface Look {
  readonly title: string
  readonly viewport: { readonly width: number; readonly height: number }
  readonly colorScheme: 'light' | 'dark'
}

/** As on a desk and on a phone, in light and in dark. */
export const looks: readonly Look[] = Object.entries(sizes).flatMap(([device, viewport]) =>
  (['light', 'dark'] as const).map((colorScheme) => ({
    title: `${device}, ${colorScheme}`,
    viewport,
    colorScheme,
  })),
)

export const onDesk: Look = { title: 'desk', viewport: sizes.desktop, colorScheme: 'light' }
export const onPhone: Look = { title: 'phone', viewport: sizes.phone, colorScheme: 'light' }

/** A browser whose profile is new and empty, and goes with it. */
export function launch(path: string): Promise<Browser> {
  return chromium.launch({ executablePath: path, args: [...chromiumFlags], ...patience })
}

/** A separate window. Everything that its console calls an error is kept. */
export async function openWindow(
  browser: Browser,
  { viewport, colorScheme }: Look,
): Promise<{ readonly page: Page; readonly mistakes: readonly string[] }> {
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

/** By how many pixels the page can be scrolled sideways. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
}
