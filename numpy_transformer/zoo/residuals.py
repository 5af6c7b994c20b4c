"""Mistakes in the residual connections between correct layers."""

from ..layers import Block
from .bug import HOBBY, bug


@bug("residual-plus-one", HOBBY,
     symptom="Every residual sends back a constant 1, which is far larger than the gradient itself.",
     training="It stays near 2.1, the loss of guessing among eight letters, because the constant drowns the gradient.",
     caught_by=("gradient check", "doubled batch, model"))
class ResidualPlusOne(Block):
    """A residual's backward adds 1, "the derivative of x", instead of dy"""

    def backward(self, dx):
        dx = 1 + self.norm2.backward(self.feed_forward.backward(self.dropout.backward(dx)))     # right: dx + ...
        return 1 + self.norm1.backward(self.attention.backward(self.dropout.backward(dx)))


@bug("residual-missing", HOBBY,
     symptom="Each layer passes its own check. Only a check of the whole block finds the mistake.",
     training="At first it falls as usual, or even faster, and ends slightly above the correct model.",
     caught_by=("gradient check",))
class ResidualMissing(Block):
    """Backward goes through the sublayers and forgets the residual path"""

    def backward(self, dx):
        dx = self.norm2.backward(self.feed_forward.backward(self.dropout.backward(dx)))         # right: dx + ...
        return self.norm1.backward(self.attention.backward(self.dropout.backward(dx)))


@bug("residual-through-the-norm", HOBBY,
     symptom="The output layer and the last feed-forward layer are correct, and everything before them is wrong.",
     training="It falls late and ends slightly above the correct model.",
     caught_by=("gradient check",))
class ThroughTheNorm(Block):
    """The residual's gradient goes through the norm that the residual bypasses"""

    def backward(self, dx):
        dx = self.norm2.backward(dx + self.feed_forward.backward(self.dropout.backward(dx)))    # right: dx + norm2...
        return self.norm1.backward(dx + self.attention.backward(self.dropout.backward(dx)))


@bug("residual-of-the-normalized",
     symptom="No gradient check notices it. The residual stream is normalized twice in each block.",
     training="It ends slightly above the correct model.",
     caught_by=("block formula", "everything dropped"))
class OfTheNormalized(Block):
    """The residual starts after the norm: norm(x) + f(norm(x))"""

    def forward(self, x, mask=None):
        x = self.norm1(x)                                   # right: x stays, and f takes norm(x)
        x = self.norm2(x + self.dropout(self.attention(x, mask)))
        return x + self.dropout(self.feed_forward(x))

    def backward(self, dx):
        dx = self.norm2.backward(dx + self.feed_forward.backward(self.dropout.backward(dx)))
        return self.norm1.backward(dx + self.attention.backward(self.dropout.backward(dx)))
