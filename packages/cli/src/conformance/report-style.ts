/** Light and dark, responsive down to a phone. */
export const style: string = `
:root {
  color-scheme: light dark;
  --ground: #fff; --text: #1c1e21; --soft: #5d646e; --line: #dfe2e6; --panel: #f6f7f9;
  --good: #1a7f45; --bad: #c02626; --warn: #8a5a00;
  --c0: #2f6fde; --c1: #1b998b; --c2: #c9762b; --c3: #8e5bd0; --c4: #b23a72; --c5: #5f7a1f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #16181c; --text: #e6e8eb; --soft: #9aa2ad; --line: #333841; --panel: #1f2228;
    --good: #5fd08d; --bad: #ff7b72; --warn: #e0b050;
    --c0: #6ea2ff; --c1: #4fd1c1; --c2: #f0a860; --c3: #b995f2; --c4: #ef82b3; --c5: #a9c75b;
  }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; margin: 0 }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem }
h3 { font-size: 1rem; font-weight: 500; margin: 0 0 .5rem }
header p, small, .caption { color: var(--soft); margin: 0 }
table { border-collapse: collapse; width: 100% }
th { width: 1%; text-align: left; font-weight: 500; vertical-align: top; padding: .4rem 1rem .4rem 0;
  white-space: nowrap; overflow-wrap: normal }
td { padding: .4rem 0 }
tr { border-top: 1px solid var(--line) }
ul { display: flex; flex-wrap: wrap; gap: .3rem; list-style: none; margin: 0; padding: 0 }
li { border: 1px solid var(--line); border-radius: .3rem; padding: 0 .4rem; font-size: .8rem;
  white-space: nowrap; color: var(--soft) }
li.passed { color: var(--good) }
li.not-tried { color: var(--warn); border-style: dashed; border-color: currentColor }
.failed { color: var(--bad) }
li.failed { border-color: var(--bad); font-weight: 700 }
section > p { margin: 0 0 .6rem }
.legend { margin: 0 0 .6rem }
.legend li { white-space: normal }
.again { margin: .5rem 0 0; font-size: .85rem }
code { font: .8rem ui-monospace, monospace }
article { border-left: 3px solid var(--bad); background: var(--panel); padding: .6rem .8rem; margin: .6rem 0 }
pre { margin: 0; font-size: .8rem; white-space: pre-wrap }
figure { margin: 1rem 0; border: 1px solid var(--line); border-radius: .4rem; padding: .8rem }
figcaption { margin-bottom: .5rem }
.scroll { overflow-x: auto }
.scroll svg { display: block; width: 100%; min-width: 40rem; height: auto; font: 11px system-ui, sans-serif }
.defs { position: absolute; width: 0; height: 0 }
text { fill: var(--soft) }
.scale { text-anchor: middle }
.tick { stroke: var(--line) }
.wait { stroke: var(--soft); opacity: .6 }
${[0, 1, 2, 3, 4, 5].map((n) => `.c${n} { fill: var(--c${n}) }`).join('\n')}
.clash { fill: url(#hatch); stroke: var(--bad) }
.hatch-ground { fill: var(--ground) }
.hatch-line { fill: var(--bad) }
.clash-key { color: var(--bad); font-weight: 700 }
@media (max-width: 40rem) {
  tr, th, td { display: block }
  th { width: auto; padding-bottom: 0 }
  body { padding: .8rem }
}
`
