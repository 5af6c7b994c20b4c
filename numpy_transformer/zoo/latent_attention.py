"""Mistakes in latent attention: its scale, and the key that all heads share."""

import math

import numpy as np

from ..layers import AbsorbedLatentAttention, LatentAttention
from ..layers.heads import merge_heads
from .bug import Source, bug


@bug("scale-of-the-absorbed-width",
     Source("ollama/ollama", "16750865", "model/models/glm4moelite/model.go", "mlaKeyLength in New",
            "fixed by pull request 13893"),
     symptom="A model that was trained with the keys of each head attends less sharply, and writes worse text.",
     training="The two losses fall almost together, because the model learns with the scale that it has.",
     caught_by=("latent attention reference",), samples=("AbsorbedLatentAttention", "language model, absorbed"))
class ScaleOfTheAbsorbedWidth(AbsorbedLatentAttention):
    """The absorbed scores are divided by the root of the width of the absorbed queries, d_latent + d_rotary"""

    def attend(self, q, c, k_rotary, mask):
        return super().attend(self.factor(q) * q, c, k_rotary, mask)

    def attend_backward(self, dy):
        dq, dc, dk_rotary = super().attend_backward(dy)
        return self.factor(dq) * dq, dc, dk_rotary

    def factor(self, q):
        width = q.shape[-1]
        wrong = self.d_latent + width - self.d_head         # right: the width of the queries before, d_head + d_rotary
        return math.sqrt(width / wrong)


@bug("scale-of-the-model-width",
     Source("NVIDIA/Megatron-LM", path="megatron/training/arguments.py", place="kv_channels", reference="issue 1501"),
     symptom="Scores are larger than they should be, because the heads of latent attention are wider than d_model / H.",
     training="It falls about as usual, and which of the two is ahead depends on the seed.",
     caught_by=("latent attention reference",), samples=("LatentAttention", "language model, latent"))
class ScaleOfTheModelWidth(LatentAttention):
    """The scores are divided by sqrt(d_model / H), the width that a head would have in multi-head attention"""

    def attend(self, q, c, k_rotary, mask):
        return super().attend(self.factor(q) * q, c, k_rotary, mask)

    def attend_backward(self, dy):
        dq, dc, dk_rotary = super().attend_backward(dy)
        return self.factor(dq) * dq, dc, dk_rotary

    def factor(self, q):
        wrong = self.down.d_in / self.num_heads
        return math.sqrt(q.shape[-1] / wrong)               # right: 1, the width of a query is q.shape[-1]


@bug("rotary-key-of-one-head",
     symptom="The rotary key learns what the first head wants, although all heads use it.",
     training="It falls almost as usual, and with most seeds it ends above the correct model.",
     caught_by=("gradient check",), samples=("LatentAttention", "language model, latent"))
class RotaryKeyOfOneHead(LatentAttention):
    """The gradient of the shared rotary key is that of the first head, instead of the sum over all heads"""

    def attend_backward(self, dy):
        dq, dk, dv = self.attention.backward(dy)
        n = self.d_head
        dc = self.up.backward(merge_heads(np.concatenate([dk[..., :n], dv], -1)))
        return dq, dc, dk[..., :1, :, n:]                   # right: dk[..., n:].sum(-3, keepdims=True)
