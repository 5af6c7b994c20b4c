"""From logits to tokens. In reading order:

greedy.py, sampling.py, beam.py     the most likely token; a drawn token; the best of several hypotheses
logit_changes.py                    penalties and forbidden tokens, as published models ask for them
continuation.py, cache.py           what these have in common; keys and values that are not computed again
bleu.py                             scores of translations against references
"""

from .beam import beam_search
from .cache import KeyValueCache
from .greedy import greedy_decode
from .sampling import generate

__all__ = ["KeyValueCache", "beam_search", "generate", "greedy_decode"]
