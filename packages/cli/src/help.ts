import { commands } from './command.ts'
import type { Command } from './command.ts'
import { exitCodesHelp } from './exit-codes.ts'
import { commonOptions } from './options.ts'
import type { Option } from './options.ts'
import { table } from './output.ts'
import type { Paint } from './output.ts'

export function overview(paint: Paint): string {
  const rows = [...commands].map(([name, { summary }]) => [`  ${name}`, summary])
  return [
    `${paint('bold', 'locks')}: distributed locks from the command line`,
    `Usage: locks COMMAND [options]`,
    table(rows, (cell, column) => (column === 0 ? paint('cyan', cell) : cell)),
    `The backend is a URL (--url, or LOCKS_URL) or a JSON file (--config): memory:, file:/var/lock/app, redis://host,
postgres://host/db, … Install its adapter in your project: npm install @locks/redis ioredis`,
    'locks COMMAND --help shows the options of a command.',
    section(paint, 'Exit codes', exitCodesHelp),
  ].join('\n\n')
}

export function helpOf(name: string, command: Command, paint: Paint): string {
  const options: [string, Option][] = Object.entries({ ...command.options, ...commonOptions })
  return [
    `Usage: locks ${name} ${command.usage}`,
    command.about,
    section(
      paint,
      'Options',
      options.map(([option, { takes, short, help }]) => [
        `${short === undefined ? '' : `-${short}, `}--${option}${takes === undefined ? '' : ` ${takes}`}`,
        help,
      ]),
    ),
    [paint('bold', 'Examples'), ...command.examples.map((example) => `  ${example}`)].join('\n'),
    section(paint, 'Exit codes', exitCodesHelp),
  ].join('\n\n')
}

function section(paint: Paint, title: string, rows: readonly (readonly [string, string])[]): string {
  return `${paint('bold', title)}\n${table(rows.map(([left, right]) => [`  ${left}`, right]))}`
}
