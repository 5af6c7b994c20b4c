"""Finds mistakes of a conversion: wrongly converted weights give fluent nonsense, and the loss on a text shows the mistake.

diagnosis.py                          the Diagnosis: what was found without a text and with one
search.py, changes.py, losses.py      tries one change after another, and keeps those that lower the loss of a text
judgment.py                           how much a change has to help for a finding, and for a hint
weights.py                            what weights and settings show without a text
random_weights.py, number_formats.py  matrices that are untrained, and numbers that were read in another format
embeddings_and_output.py, stack.py    mistakes before and after the blocks, and in the order of the blocks
attention.py, heads.py, rotary.py     mistakes in projections, heads and rotary positions
reshaped.py, scales.py, swaps.py      matrices that were reshaped in place of being transposed, multiplied, or exchanged
rows_of_ids.py                        tokens that alone are predicted worse than by guessing
tables.py                             embeddings, positions and output layers that were read in another order
left_out.py                           parts that do harm, whatever is wrong with them
report.py                             what is printed
"""

from .diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
