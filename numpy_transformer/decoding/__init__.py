"""From logits to tokens."""

from .greedy import greedy_decode
from .sampling import generate

__all__ = ["generate", "greedy_decode"]
