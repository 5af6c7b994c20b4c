"""Tools that look inside a model:

recorder.py     records every call of every component
influence.py    measures which input token moves which output
trace.py        prints forward and backward of a small model side by side, with finite differences
"""

from .influence import influence
from .recorder import record

__all__ = ["influence", "record"]
