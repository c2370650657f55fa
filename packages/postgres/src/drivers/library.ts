import { errors } from '../errors.ts'
import { declared } from '../option-table.ts'
import type { Library } from '../option-table.ts'
import type { Driver } from './driver.ts'

const drivers: Readonly<Record<Library, () => Promise<{ readonly driver: Driver }>>> = {
  pg: () => import('./pg.ts'),
  postgres: () => import('./postgres-js.ts'),
}

/** Loads the library, or the first one that is installed. */
export async function driverFor(library: Library | undefined): Promise<Driver> {
  for (const one of library === undefined ? declared.options.library.of : [library])
    try {
      return (await drivers[one]()).driver
    } catch (error) {
      if (!isMissing(error, one)) throw error
    }
  throw errors.invalid(
    library === undefined
      ? 'no client library is installed, so no lock can be acquired; run: npm install pg, or: npm install postgres'
      : `the package ${library} is not installed, so no lock can be acquired; run: npm install ${library}`,
  )
}

/** Whether the package itself is missing, not something that it needs. */
function isMissing(error: unknown, library: Library): boolean {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'ERR_MODULE_NOT_FOUND') return false
  return new RegExp(`['"]${library}['"]`).test(error.message)
}
