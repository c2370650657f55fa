import type { StoreFactory } from '../../adapter/versioned-store.ts'

/** What the contract is run against. A rule that cannot run is listed with the reason. */
export interface StoreSubject {
  readonly name: string
  /** Each call opens an independent client of the same store. */
  readonly open: StoreFactory
  /** Deletes a key, as an operator might. */
  drop?(key: string): Promise<void>
  /** How another process opens the store: a module that exports `storeFrom(options)`, by name or file URL. */
  readonly module?: StoreModule
}

export interface StoreModule {
  readonly specifier: string
  /** As JSON. */
  readonly options: Readonly<Record<string, unknown>>
}
