"""Checks of correctness: the gradient check, and the table of named checks that every component has to pass.

gradcheck.py, report.py                     backward against two numerical derivatives; the report on it
check.py, registry.py, samples.py           what a named check is; all of them; a sample of every component
contract.py, repeated_passes.py             the rule that every component obeys, in one pass and in several
reference_layers.py, reference_attention.py components against plain loops that follow the papers
reference_modern.py                         the same for parts of current models
invariants.py, perturbation.py              what follows from the formula; what each output depends on
batch_invariance.py, dropout.py             what must not depend on the batch; where dropout acts
optimizers.py                               optimizers and schedules against single numbers
"""

from .gradcheck import gradcheck

__all__ = ["gradcheck"]
