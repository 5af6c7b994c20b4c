"""Finds mistakes of a conversion: wrongly converted weights give fluent nonsense, and the loss on a text shows the mistake.

diagnosis.py, changes.py, losses.py   tries one change after another, and keeps those that lower the loss of a text
weights.py                            what weights and settings show without a text
embeddings_and_output.py, stack.py    mistakes before and after the blocks, and in the order of the blocks
attention.py, heads.py, rotary.py     mistakes in projections, heads and rotary positions
reshaped.py                           matrices that were reshaped in place of being transposed
report.py                             what is printed
"""

from .diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
