"""The bug zoo: mistakes that were published or are often made, each with what it does and which check finds it."""

from . import attention, cache, embedding, feed_forward, loss, multi_head, normalization, softmax, training, wiring
from .bug import BUGS, Bug, apply, find, verdicts
from .race import race

__all__ = ["Bug", "apply", "find", "list", "race", "verdicts"]


def list():
    """All bugs, those of one component side by side."""
    return [*BUGS.values()]
