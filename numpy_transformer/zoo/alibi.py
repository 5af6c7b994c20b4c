"""Mistakes in ALiBi: the sign of the bias, and its length in decoding."""

from ..layers import ALiBi
from .bug import Source, bug


@bug("alibi-upside-down",
     Source("meta-pytorch/attention-gym", path="examples/flex_attn.ipynb", place="alibi_and_causal_closure",
            reference="fixed by pull request 86"),
     symptom="Every head prefers the most distant keys, so the first tokens of a text get most of the weight.",
     training="On texts as short as these, the two losses fall almost together.",
     caught_by=("ALiBi reference",))
class AlibiUpsideDown(ALiBi):
    """The bias is slope * (t - s), so that distant keys gain instead of losing"""

    def forward(self, T, S, positions=None):
        return -super().forward(T, S, positions)            # right: slope * (s - t)


@bug("alibi-of-the-queries-alone",
     Source("keras-team/keras-hub", path="keras_hub/src/models/falcon", place="FalconTransformerDecoder",
            reference="issue 2861, fixed by pull request 2977"),
     symptom="With a cache, each new token sees all earlier tokens without a bias. Without a cache everything is correct.",
     training="The losses are exactly the same, because training uses no cache.",
     caught_by=("key-value cache",), samples=("language model, alibi",))
class AlibiOfTheQueriesAlone(ALiBi):
    """The bias is computed for the new tokens alone, although the scores are those of all tokens in the cache"""

    def forward(self, T, S, positions=None):
        return super().forward(T, S, positions) if T == S else super().forward(T, T)        # right: always all S tokens
