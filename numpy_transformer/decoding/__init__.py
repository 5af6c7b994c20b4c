"""From logits to tokens."""

from .beam import beam_search
from .greedy import greedy_decode
from .sampling import generate

__all__ = ["beam_search", "generate", "greedy_decode"]
