import { escapeHtml } from './conformance/escape-html.ts'
import { style } from './conformance/report-style.ts'

/** A report as one page. `summary` and `main` are HTML. */
export function htmlPage(
  title: string,
  { summary, main, css = '' }: { readonly summary: string; readonly main: string; readonly css?: string },
): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${style}${css}</style>
</head>
<body>
<header>
<h1>${escapeHtml(title)}</h1>
${summary}
</header>
<main>
${main}
</main>
</body>
</html>
`
}

/** A time of the report, to the minute. */
export function timeTag(when: Date): string {
  const iso = when.toISOString()
  return `<time datetime="${iso}">${iso.slice(0, 16).replace('T', ' ')} UTC</time>`
}
