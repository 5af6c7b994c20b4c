"""The page of a student's Transformer: one file that needs neither Python nor a network."""

import base64
import string
from html import escape

from ... import __version__
from ...bench.machine import processor
from ...texts import Message, render, texts_of
from ...threads import blas_threads
from ...views import as_svg, attention_heads, learning_curves, losses_side_by_side
from . import whole
from .drawing import MARKS
from .report import TEMPERATURE, TIMED
from .told import stages_named

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
MARK = b'content="numpy-transformer build report"'             # of a page that may be replaced
KIND = {"#": "mine", "~": "begun", " ": "reference"}        # class of a box for its mark in the drawing of letters
PAGE = string.Template("""<!DOCTYPE html>
<html lang="$language">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="generator" content="numpy-transformer build report">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --muted: #525a64; --page: #fff; --card: #f4f6f9; --line: #c9d1db; --mine: #0a7d70;
  --begun: #80620f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf3; --muted: #aab4bf; --page: #14181f; --card: #1d232d; --line: #3d4654;
  --mine: #7ff3d0; --begun: #e6c040; } }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.6rem; }
.muted { color: var(--muted); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.92rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0; border-bottom: 1px solid var(--line); }
figure { margin: 0.5rem 0; }
figure img { max-width: 100%; background: #fff; border-radius: 0.4rem; }
blockquote { margin: 0.6rem 0; padding: 0.6rem 1rem; background: var(--card); border-left: 4px solid var(--mine); border-radius: 0.3rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
svg.model { width: 100%; max-width: 46rem; height: auto; font: 15px system-ui, sans-serif; }
svg.model rect { fill: var(--card); stroke: var(--line); stroke-width: 1.5; }
svg.model rect.wall { fill: none; stroke-dasharray: 5 4; }
svg.model .mine rect { stroke: var(--mine); stroke-width: 3; }
svg.model .begun rect { stroke: var(--begun); stroke-width: 3; stroke-dasharray: 8 4; }
svg.model text { fill: var(--ink); }
svg.model .reference text { fill: var(--muted); }
svg.model .mine text { font-weight: 600; }
svg.model path { fill: none; stroke: var(--muted); stroke-width: 1.5; }
.legend span { margin-right: 1.4rem; white-space: nowrap; }
.legend i { display: inline-block; width: 1.1rem; height: 0.8rem; margin-right: 0.4rem; border: 2px solid var(--line); border-radius: 3px; }
.legend .mine i { border-color: var(--mine); }
.legend .begun i { border: 2px dashed var(--begun); }
@media print { body { max-width: none; } h2 { break-after: avoid; } figure, blockquote { break-inside: avoid; } }
</style>
</head>
<body>
$body
</body>
</html>
""")


def say(key, **values):
    return escape(str(render(Message(f"stages/report.{key}", **values))))


def page(report, name=""):
    """Returns the page of a Report as text.

    Parameters:
        name : whose Transformer it is, or ""
    """
    title = say("page.by", name=name) if name else say("page.title")
    first, last = report.losses[0], report.losses[-50:].mean()
    parts = [
        f"<h1>{title}</h1>", f"<p>{intro(report)}</p>",
        f'<p class="muted">{say("page.size", lines=report.lines, files=report.files)}</p>',
        section("drawing", drawing(report.states), legend()),
        section("checked", table(report)),
        section("learning", paragraph("weights", count=f"{report.weights:,}", first=f"{first:.2f}", last=f"{last:.2f}"),
                picture(curves(report), say("page.learned", steps=f"{len(report.losses):,}")),
                picture(beside_library(report), say("page.beside", steps=whole.STEPS))),
        section("samples", *(f'<blockquote>{escape(text)}</blockquote><p class="muted">'
                             f'{say("page.sample", temperature=TEMPERATURE, seed=seed)}</p>'
                             for seed, text in report.samples.items())),
        section("attention", *attention(report)),
        section("speed", paragraph("times", **times(report))),
        f'<p class="muted">{say("page.made", version=__version__)}</p>']
    return PAGE.substitute(language="en", policy=POLICY, title=title, body="\n".join(parts))


def intro(report):
    """What was written by hand, and what was checked."""
    mine = [stage for stage, state in report.states.items() if state == "passed"]
    rest = [stage for stage in report.states if stage not in mine]
    if not rest:
        return say("page.intro")
    return say("page.intro_some", mine=stages_named(mine), rest=stages_named(rest))


def section(key, *contents):
    return "\n".join([f"<section>\n<h2>{say(f'page.{key}')}</h2>", *contents, "</section>"])


def paragraph(key, **values):
    return f"<p>{say(f'page.{key}', **values)}</p>"


def times(report):
    yours, library = report.milliseconds["yours"], report.milliseconds["library"]
    count = blas_threads()
    return {"yours": f"{yours:.1f}", "library": f"{library:.1f}", "ratio": f"{yours / library:.1f}", "count": TIMED,
            "processor": processor(), "threads": Message("stages/report.page.threads", n=count)}


def table(report):
    """The table of what was checked in each stage."""
    keys = ("stage", "state", "values", "gradients", "bugs", "losses")
    rows = ["<tr>" + "".join(f"<th>{say(f'page.{key}')}</th>" for key in keys) + "</tr>"]
    for stage, state in report.states.items():
        cells = [f"{stage.number} {escape(stage.title)}", escape(render(Message(f"stages/words.status.{state}")))]
        result = report.results.get(stage)
        cells += facts(result) if result and result.passed else [say("page.none")] * 4
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def facts(result):
    """Returns what was found about a stage that has passed, as cells."""
    from .check import answer_keys
    gradients = say("page.none")
    if result.gradients:
        gradients = say("page.error", count=len(result.gradients), error=f"{max(result.gradients.values()):.0e}")
    return [say("page.cases", count=sum(len(key.cases) for key in answer_keys(result.stage.number, 0))), gradients,
            str(len(result.bugs) or say("page.none")),
            say("page.apart", size=f"{whole.apart(result.stage, result.curve):.0e}")]


def curves(report):
    rows = [{"step": step, "loss": loss} for step, loss in enumerate(report.losses.tolist(), 1)]
    return learning_curves({say("page.learning"): rows})


def beside_library(report):
    """The losses of the steps with which the last stage that has passed was checked, and the library's."""
    last = max((stage for stage, result in report.results.items() if result.passed), key=lambda stage: stage.number)
    *_, expected = whole.experiment(last.number)
    return losses_side_by_side({say("page.library"): expected.losses, say("page.yours"): report.results[last].curve.losses})


def attention(report):
    """Yields a picture for each block."""
    blocks = len(report.attention)
    for i, weights in enumerate(report.attention):
        figure = attention_heads(weights, report.tokens, report.tokens, title="")
        yield picture(figure, say("page.rows", block=i, blocks=blocks))


def picture(figure, caption):
    """Returns a figure as an image inside the page."""
    data = base64.b64encode(as_svg(figure)).decode()
    return (f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
            f'<figcaption class="muted">{caption}</figcaption></figure>')


def legend():
    return '<p class="legend">' + "".join(f'<span class="{kind}"><i></i>{say(f"page.legend.{kind}")}</span>'
                                          for kind in ("mine", "begun", "reference")) + "</p>"


# The drawing: (number of a stage or key of a word, x, y, width) of each box, from above; a box is 34 high
BOXES = ((9, 20, 20, 250), (1, 20, 84, 250), (10, 470, 20, 230), (11, 470, 84, 230), (12, 470, 148, 230),
         (3, 60, 196, 210), (4, 90, 290, 180), (3, 90, 338, 180), (6, 90, 432, 180), (5, 90, 480, 180), (3, 90, 528, 180),
         (2, 60, 650, 210))
WALLS = ((8, 20, 148, 420, 552), (7, 60, 250, 340, 340))        # stage, x, y, width, height
PATHS = ("M145 84V54", "M145 148V118", "M165 250V230", "M165 290V274", "M165 338V324", "M165 432V372", "M165 480V466",
         "M165 528V514", "M165 650V562", "M165 576H330V412H173", "M165 386H330V266H173", "M145 736V700")
WORDS = (("positions", 175, 632), ("logits", 155, 138), ("tokens", 118, 754), ("times", 350, 272))


def drawing(states):
    """Returns the model as SVG, in which the boxes of the student's stages are drawn in another color."""
    words = texts_of("stages/words")["drawing"]
    kinds = {stage.number: KIND[MARKS[state]] for stage, state in states.items()}
    parts = [f'<path d="{path}"/>' for path in PATHS]
    for number, x, y, width, height in WALLS:
        parts.append(f'<g class="{kinds[number]}"><rect class="wall" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>'
                     f'<text x="{x + 12}" y="{y + 22}">{number} {escape(words[str(number)])}</text></g>')
    for number, x, y, width in BOXES:
        parts.append(f'<g class="{kinds[number]}"><rect x="{x}" y="{y}" width="{width}" height="34" rx="6"/>'
                     f'<text x="{x + 12}" y="{y + 22}">{number} {escape(words[str(number)])}</text></g>')
    for x, y in ((165, 266), (165, 412)):
        parts.append(f'<circle cx="{x}" cy="{y}" r="8" fill="none" stroke="currentColor"/><text x="{x - 5}" y="{y + 5}">+</text>')
    parts += [f'<text x="{x}" y="{y}">{escape(words[key])}</text>' for key, x, y in WORDS]
    return f'<svg class="model" viewBox="0 0 720 764" role="img" aria-label="{say("page.drawing")}">{"".join(parts)}</svg>'
