"""From logits to tokens, and the keys and values that are kept on the way."""

from .beam import beam_search
from .cache import KeyValueCache
from .greedy import greedy_decode
from .sampling import generate

__all__ = ["KeyValueCache", "beam_search", "generate", "greedy_decode"]
