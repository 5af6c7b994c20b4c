"""The bug zoo: published or common mistakes, each with its symptoms and the checks that catch it.

bug.py, models.py, race.py                      what a bug is; small models to plant it in; two runs side by side
softmax.py, loss.py, embedding.py               one file for each component that the bugs are in
attention.py, alibi.py, soft_cap.py, sees_less.py
multi_head.py, latent_attention.py, cache.py
normalization.py, feed_forward.py, residuals.py
experts.py, quantization.py, optimizers.py
"""

from . import (alibi, attention, cache, embedding, experts, feed_forward, latent_attention, loss, multi_head, normalization,
               optimizers, quantization, residuals, sees_less, soft_cap, softmax)
from .bug import BUGS, Bug, find, apply, verdicts
from .race import race

__all__ = ["Bug", "apply", "bugs", "find", "race", "verdicts"]


def bugs() -> list[Bug]:
    """Returns all bugs as a list, grouped by the component that they are in."""
    return list(BUGS.values())
