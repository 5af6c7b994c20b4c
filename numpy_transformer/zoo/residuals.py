"""Right layers, wrongly connected: the residuals of a block."""

from ..layers import EncoderBlock
from .bug import bug


@bug("residual-plus-one", "a version of naye971012/numpy_transformer",
     symptom="a constant 1 is sent down from every residual, far larger than the gradient itself",
     training="stays near 2.1, a guess among eight letters: the constant drowns the gradient",
     caught_by=("gradient check", "doubled batch, model"))
class ResidualPlusOne(EncoderBlock):
    """A residual's backward adds 1, "the derivative of x", and not dy"""

    def backward(self, dx):
        dx = 1 + self.norm2.backward(self.feed_forward.backward(self.dropout.backward(dx)))     # right: dx + ...
        return 1 + self.norm1.backward(self.attention.backward(self.dropout.backward(dx)))


@bug("residual-missing", "a version of YVSemlani/numpy-transformer",
     symptom="each layer's own check passes: only a check of the whole block finds it",
     training="falls at first as usual, even quicker, and ends slightly above the right one",
     caught_by=("gradient check",))
class ResidualMissing(EncoderBlock):
    """Backward goes through the sublayers and forgets the way around them"""

    def backward(self, dx):
        dx = self.norm2.backward(self.feed_forward.backward(self.dropout.backward(dx)))         # right: dx + ...
        return self.norm1.backward(self.attention.backward(self.dropout.backward(dx)))


@bug("residual-through-the-norm", "a version of Jessitoii/numpy-gpt",
     symptom="output layer and last feed-forward are right, all below them is wrong",
     training="falls late, and ends slightly above the right one",
     caught_by=("gradient check",))
class ThroughTheNorm(EncoderBlock):
    """The residual's gradient goes through the norm that the residual goes around"""

    def backward(self, dx):
        dx = self.norm2.backward(dx + self.feed_forward.backward(self.dropout.backward(dx)))    # right: dx + norm2...
        return self.norm1.backward(dx + self.attention.backward(self.dropout.backward(dx)))


@bug("residual-of-the-normalized",
     symptom="no gradient check sees it; the residual stream is normalized twice in each block",
     training="ends slightly above the right one",
     caught_by=("block formula", "everything dropped"))
class OfTheNormalized(EncoderBlock):
    """The residual starts behind the norm: norm(x) + f(norm(x))"""

    def forward(self, x, mask=None, positions=None, cache=None):
        x = self.norm1(x)                                   # right: x stays, and f takes norm(x)
        x = self.norm2(x + self.dropout(self.attention(x, mask, positions, cache)))
        return x + self.dropout(self.feed_forward(x))

    def backward(self, dx):
        dx = self.norm2.backward(dx + self.feed_forward.backward(self.dropout.backward(dx)))
        return self.norm1.backward(dx + self.attention.backward(self.dropout.backward(dx)))
