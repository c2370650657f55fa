import type { AdapterFactory } from '@locks/core'
import type { AdapterHost } from '@locks/core/adapter'
import { openTestAdapter } from '@locks/core/conformance'
import type { TestAdapter } from '@locks/core/conformance'
import { onTestFinished } from 'vitest'
import { calmClock } from './clients.ts'

/** An adapter without core above it, closed when the test ends. */
export function bareAdapter(factory: AdapterFactory, host?: Partial<AdapterHost>): TestAdapter {
  const opened = openTestAdapter(factory, { clock: calmClock, ...host })
  onTestFinished(() => opened.adapter.close())
  return opened
}

export const never: AbortSignal = new AbortController().signal
