"""A film of a training run, as a page: `numpy-transformer train KIND --film run.html`.

film.py                 records frames while a Trainer trains, and writes the page
fixed_example.py        what the model predicts and attends to on one text, in every frame
pictures.py             large arrays as small pictures of one byte per cell
budget.py               which steps become frames, and what has to be left out so that the page stays small
"""

from .film import Film
from .fixed_example import FixedExample, example_of

__all__ = ["Film", "FixedExample", "example_of"]
