"""Tools that look inside a model: record every call of every component, and measure which input moves which output."""

from .influence import influence
from .recorder import record

__all__ = ["influence", "record"]
