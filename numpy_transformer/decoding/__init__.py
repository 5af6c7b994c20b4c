"""From logits to tokens. In reading order:

greedy.py, sampling.py, beam.py     the most likely token; a drawn token; the best of several hypotheses
speculative.py, drafts.py           guesses of several tokens that the model verifies in one call; what makes the guesses
logit_changes.py                    penalties and forbidden tokens, as published models ask for them
continuation.py, cache.py           what these have in common; keys and values that are not computed again
bleu.py                             scores of translations against references
"""

from .beam import beam_search
from .cache import KeyValueCache
from .drafts import ModelDraft, MultiTokenDraft, NGramDraft
from .greedy import greedy_decode
from .sampling import generate
from .speculative import speculative_decode

__all__ = ["KeyValueCache", "ModelDraft", "MultiTokenDraft", "NGramDraft", "beam_search", "generate", "greedy_decode",
           "speculative_decode"]
