"""The explorer: one training step, forward and backward, as a page in the browser. README.md tells how it works.

explorer.py, session.py, server.py                  `nt.explore`; what the page asks for; who answers
examples.py, encoder_examples.py, arrays.py         what is shown: texts or arrays become a step
tiny_models.py, languages.py, runs.py               tiny trained models and their languages; runs of `train`
recording.py, calls.py, rerun.py                    one step with every call; the same step again
graph.py, elements.py, gradients.py                 the computation graph with its values and gradients
matching.py, rearranging.py, origin.py              how the code of a component computed an array
component_rules.py, expert_rules.py,                what cannot be inferred
    latent_rules.py, rotary_rules.py
axes.py, naming.py, sources.py                      names and sources
formulas/                                           how each number follows from others
edits.py, switches.py, possibilities.py             what a reader changes: weights, parts that are off, bugs
comparisons.py                                      other steps that are set beside the page's own
nudge.py, batched_nudges.py, predictions.py         the proof by finite differences; what a step predicts
document.py, page.py, wording.py, page/             the document, the page that draws it, and its words
lessons.py, variables.py, measure.py                places of lessons; arrays of a program; how fast the page is
film/                                               a training run as a page that plays it
"""

from .explorer import Explorer, explore

__all__ = ["Explorer", "explore"]
