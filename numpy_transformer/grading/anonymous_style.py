"""The look of the anonymous summary: large enough for a projector, light and dark, and printable."""

STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --back: #fff; --line: #d5d9de; --code: #f5f6f8;
  --right: #2e7d4f; --wrong: #c0432f; --unfinished: #b98a1d; --not: #9aa0a8 }
@media screen and (prefers-color-scheme: dark) { :root { --text: #e8eaed; --back: #16181c; --line: #3a3f47; --code: #20242a;
  --right: #3f9c66; --wrong: #d0604c; --unfinished: #b98a1d; --not: #666c75 } }
body { margin: 0; background: var(--back); color: var(--text); font: 1.25rem/1.5 system-ui, sans-serif }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1.2rem 3rem }
h1 { font-size: 2.1rem; margin: 0 } h2 { font-size: 1.7rem; margin: 2.5rem 0 .5rem }
h3 { font-size: 1.35rem; margin: 0 0 .3rem } h4 { font-size: 1.15rem; margin: 1rem 0 .3rem }
small { font-weight: normal; opacity: .75 }
caption { text-align: left; font-weight: bold; padding: .3rem 0 }
table { width: 100%; border-collapse: collapse } th, td { padding: .18rem .5rem .18rem 0; text-align: left }
th { width: 3.2rem } td { width: 42% } .bar { display: flex; width: auto; padding-right: 0 }
.bar span { overflow: hidden; white-space: nowrap; text-align: center; color: #fff; font-size: 1rem; line-height: 1.7rem;
  border-right: 2px solid var(--back); box-sizing: border-box }
.key { list-style: none; display: flex; flex-wrap: wrap; gap: .4rem 1.4rem; padding: 0 }
.key li::before { content: ""; display: inline-block; width: 1em; height: 1em; margin-right: .4em; vertical-align: -.12em;
  background: var(--color) }
.right { --color: var(--right) } .wrong { --color: var(--wrong) } .unfinished { --color: var(--unfinished) }
.not { --color: var(--not) } .bar span { background: var(--color) }
section { border-top: 1px solid var(--line); padding: .9rem 0 }
.code { display: grid; grid-template-columns: 1fr 1fr; gap: .8rem }
figure { margin: 0; min-width: 0 } figcaption { font-size: 1rem }
.bad figcaption { color: var(--wrong) } .good figcaption { color: var(--right) }
pre { margin: 0; padding: .5rem .7rem; overflow-x: auto; background: var(--code); border-left: 4px solid; font-size: 1.05rem;
  white-space: pre-wrap; overflow-wrap: anywhere }
.bad pre { border-color: var(--wrong) } .good pre { border-color: var(--right) }
@media (max-width: 44rem) { .code { grid-template-columns: 1fr } td { width: 30% } }
@media print { body { font-size: 12pt } section, .code { break-inside: avoid } h2, h3 { break-after: avoid }
  .bar span, .key li::before { print-color-adjust: exact; -webkit-print-color-adjust: exact } }
"""
