import { constants } from 'node:os'

export const exitCodes = {
  ok: 0,
  failure: 1,
  usage: 2,
  unavailable: 69,
  busy: 75,
  lost: 76,
  cannotExecute: 126,
  notFound: 127,
} as const

/** As `--help` shows them. */
export const exitCodesHelp: readonly (readonly [string, string])[] = [
  ['0', 'done'],
  ['1', 'failed: a rule broken, a danger found, a hold not ended, not supported'],
  ['2', 'the command line or the config is invalid'],
  ['69', 'the store cannot be reached or does not answer'],
  ['75', 'not acquired: another client holds the lock'],
  ['76', 'the lock was lost while the command ran'],
  ['126', 'the command of run cannot be executed'],
  ['127', 'the command of run was not found'],
  ['128+n', 'ended by signal n, such as 130 for Ctrl-C'],
]

export function signalCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}
