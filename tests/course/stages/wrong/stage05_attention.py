# === [ATB-1b] Attention.forward scales q before the product, and backward returns the gradient of the scaled query
#     without the factor 1 / sqrt(d); line 38: dq = dscores @ k.
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    t = np.arange(T)
    return t[:, None] >= t[None, :]


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        q = q / math.sqrt(q.shape[-1])
        scores = q @ k.mT
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        self.weights = softmax(scores)
        self.remember(q, k, v, self.weights)
        return self.weights @ v

    def backward(self, dy):
        q, k, v, w = self.recall()
        dv = w.mT @ dy
        dw = dy @ v.mT
        dscores = softmax_backward(w, dw)
        dq = dscores @ k
        dk = dscores.mT @ q
        return dq, dk, dv

# === [-] Attention.forward indexes the scores with the mask, which raises an IndexError for masks with axes of size 1
#     (such as (B, 1, S) for padding) because it does not broadcast; masks of (T, S), (S,) or the full shape work;
#     line 27: scores[..., ~mask] = -np.inf.
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    return np.tri(T, dtype=bool)


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        d = q.shape[-1]
        scores = np.einsum("...td,...sd->...ts", q, k) / math.sqrt(d)
        if mask is not None:
            scores[..., ~mask] = -np.inf
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p)
        return np.einsum("...ts,...se->...te", p, v)

    def backward(self, dy):
        q, k, v, p = self.recall()
        dp = np.einsum("...te,...se->...ts", dy, v)
        dv = np.einsum("...ts,...te->...se", p, dy)
        dA = softmax_backward(p, dp) / math.sqrt(q.shape[-1])
        dq = np.einsum("...ts,...sd->...td", dA, k)
        dk = np.einsum("...ts,...td->...sd", dA, q)
        return dq, dk, dv

# === [MSK-7 or MSK-7b] Attention.forward multiplies the scores by the mask, so hidden scores become 0 instead of
#     -infinity (and backward multiplies by it too); line 29: scores = scores * mask.
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    mask = np.zeros((T, T), dtype=bool)
    for t in range(T):
        mask[t, : t + 1] = True
    return mask


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores * mask
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p, mask)
        return p @ v

    def backward(self, dy):
        q, k, v, p, mask = self.recall()
        dv = np.swapaxes(p, -1, -2) @ dy
        dp = dy @ np.swapaxes(v, -1, -2)
        ds = softmax_backward(p, dp)
        if mask is not None:
            ds = ds * mask
        ds = ds / math.sqrt(q.shape[-1])
        return ds @ k, np.swapaxes(ds, -1, -2) @ q, dv

# === [-] Attention.forward and backward take the width of the values, e, for d in the scale 1 / sqrt(d), which is
#     right only if d = e; line 24: scale = 1 / math.sqrt(v.shape[-1]).
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    return np.tril(np.ones((T, T))) == 1


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(v.shape[-1])
        A = q @ k.mT * scale
        if mask is not None:
            A = np.where(mask, A, -math.inf)
        p = self.weights = softmax(A)
        self.remember(p, q, k, v, scale)
        return p @ v

    def backward(self, dy):
        p, q, k, v, scale = self.recall()
        dA = softmax_backward(p, dy @ v.mT) * scale
        return dA @ k, dA.mT @ q, p.mT @ dy

# === [ATB-1b] Attention.backward, line 39: q was divided by sqrt(d) in forward and the scaled q remembered (so dk is
#     right), but dq is not divided by sqrt(d): dq too large by sqrt(d), wrong whenever d > 1.
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    t = np.arange(T)
    return t[None, :] <= t[:, None]


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        q = q / math.sqrt(q.shape[-1])                      # scale the queries once, there are fewer numbers than scores
        scores = q @ np.swapaxes(k, -1, -2)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        self.weights = softmax(scores)
        self.remember(q, k, v, self.weights)
        return self.weights @ v

    def backward(self, dy):
        q, k, v, w = self.recall()
        dv = np.swapaxes(w, -1, -2) @ dy
        dw = dy @ np.swapaxes(v, -1, -2)
        dscores = softmax_backward(w, dw)
        dk = np.swapaxes(dscores, -1, -2) @ q
        dq = dscores @ k
        return dq, dk, dv

# === [-] Attention.forward, line 27: boolean indexing needs a mask of exactly (T, S): masks that have to be
#     broadcast, such as (1, S), (S,), (B, 1, 1, S) or (B, H, T, S), raise IndexError.
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    return ~np.triu(np.ones((T, T), dtype=bool), k=1)


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(k.shape[-1])
        A = np.einsum("...td,...sd->...ts", q, k) * scale
        if mask is not None:
            A[..., ~mask] = -np.inf
        p = softmax(A)
        self.weights = p
        self.remember(q, k, v, p, scale)
        return np.einsum("...ts,...se->...te", p, v)

    def backward(self, dy):
        q, k, v, p, scale = self.recall()
        dp = np.einsum("...te,...se->...ts", dy, v)
        dA = softmax_backward(p, dp) * scale
        dq = np.einsum("...ts,...sd->...td", dA, k)
        dk = np.einsum("...ts,...td->...sd", dA, q)
        dv = np.einsum("...ts,...te->...se", p, dy)
        return dq, dk, dv

# === [-] Attention.forward, line 30: the additive mask (bool array times Python float) is float64, so with a mask
#     float32 inputs give float64 y, weights and dq, dk, dv; values are right.
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    mask = np.zeros((T, T), dtype=bool)
    for t in range(T):
        mask[t, :t + 1] = True
    return mask


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        d = q.shape[-1]
        scores = q @ k.mT / math.sqrt(d)
        if mask is not None:
            scores = scores + ~mask * -1e30                 # exp makes it 0
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p)
        return p @ v

    def backward(self, dy):
        q, k, v, p = self.recall()
        d = q.shape[-1]
        dv = p.mT @ dy
        dscores = softmax_backward(p, dy @ v.mT)
        dscores = dscores / math.sqrt(d)
        return dscores @ k, dscores.mT @ q, dv

# === [ATB-1c] Attention.backward: the factor 1 / sqrt(d) is missing in dk (dq has it) (line 40: dk =
#     np.einsum("...ts,...td->...sd", dscores, q))
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    rows, columns = np.indices((T, T))
    return columns <= rows


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(q.shape[-1])
        scores = np.einsum("...td,...sd->...ts", q, k) * scale
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p, scale)
        return np.einsum("...ts,...se->...te", p, v)

    def backward(self, dy):
        q, k, v, p, scale = self.recall()
        dv = np.einsum("...ts,...te->...se", p, dy)
        dp = np.einsum("...te,...se->...ts", dy, v)
        dscores = softmax_backward(p, dp)
        dq = np.einsum("...ts,...sd->...td", dscores, k) * scale
        dk = np.einsum("...ts,...td->...sd", dscores, q)
        return dq, dk, dv

# === [-] Attention.forward divides by the root of the size of v, e, instead of that of q, d (backward agrees with
#     it); right if e = d (line 24: d = v.shape[-1])
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    return np.tri(T, dtype=bool)


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        d = v.shape[-1]
        A = (q @ k.mT) / math.sqrt(d)
        if mask is not None:
            A = np.where(mask, A, -math.inf)
        self.weights = softmax(A)
        self.remember(q, k, v, self.weights, d)
        return self.weights @ v

    def backward(self, dy):
        q, k, v, weights, d = self.recall()
        dweights = dy @ v.mT
        dv = weights.mT @ dy
        dA = softmax_backward(weights, dweights) / math.sqrt(d)
        dq = dA @ k
        dk = dA.mT @ q
        return dq, dk, dv

# === [-] Attention.forward indexes the scores with the mask, which works only for masks of exactly (T, S) or of the
#     full shape: a mask with axes of size 1 or with fewer axes, such as (B, 1, 1, S), raises IndexError (line 27:
#     scores[..., ~mask] = -np.inf)
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    t = np.arange(T)
    return t[:, None] >= t[None, :]


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores[..., ~mask] = -np.inf
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p)
        return p @ v

    def backward(self, dy):
        q, k, v, p = self.recall()
        root = math.sqrt(q.shape[-1])
        dv = np.swapaxes(p, -1, -2) @ dy
        dscores = softmax_backward(p, dy @ np.swapaxes(v, -1, -2))
        return dscores @ k / root, np.swapaxes(dscores, -1, -2) @ q / root, dv

# === [ATT-3] Attention.backward, line 33 (with lines 21-26), recomputes the weights with self.mask, the mask of the
#     latest forward, so with two uses before backward and other masks or shapes the gradients are wrong or it raises
#     an error.
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    pos = np.arange(T)
    return pos[:, None] >= pos[None, :]


class Attention(Module):
    """As in FlashAttention, the (T, S) weights are not kept for backward, but computed again."""

    def attend(self, q, k):
        wei = q @ np.swapaxes(k, -2, -1) * q.shape[-1] ** -0.5
        if self.mask is not None:
            wei = np.where(self.mask, wei, -np.inf)
        return softmax(wei)

    def forward(self, q, k, v, mask=None):
        self.mask = mask
        self.weights = self.attend(q, k)
        self.remember(q, k, v)
        return self.weights @ v

    def backward(self, dy):
        q, k, v = self.recall()
        p = self.attend(q, k)
        dv = np.swapaxes(p, -2, -1) @ dy
        dp = dy @ np.swapaxes(v, -2, -1)
        dwei = softmax_backward(p, dp) * q.shape[-1] ** -0.5
        dq = dwei @ k
        dk = np.swapaxes(dwei, -2, -1) @ q
        return dq, dk, dv

# === [-] Attention.forward, line 21, hides with att[..., ~mask] = -inf, which works for masks (T, S) and for full
#     shapes, but raises IndexError for masks that must be broadcast, such as (1, S) or (B, 1, 1, S).
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    return ~np.triu(np.ones((T, T), dtype=bool), k=1)


class Attention(Module):

    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(q.shape[-1])
        att = np.einsum("...td,...sd->...ts", q, k) * scale
        if mask is not None:
            att[..., ~mask] = -np.inf           # masked_fill; att is a new array
        att = softmax(att)
        self.weights = att
        self.remember(q, k, v, att, scale)
        return np.einsum("...ts,...se->...te", att, v)

    def backward(self, dy):
        q, k, v, att, scale = self.recall()
        dv = np.einsum("...ts,...te->...se", att, dy)
        datt = np.einsum("...te,...se->...ts", dy, v)
        dscores = softmax_backward(att, datt) * scale
        dq = np.einsum("...ts,...sd->...td", dscores, k)
        dk = np.einsum("...ts,...td->...sd", dscores, q)
        return dq, dk, dv

# === [-] causal_mask, line 12, returns np.tril(np.ones((T, T))), float64 zeros and ones, instead of a boolean array;
#     the file's own Attention accepts it, so only the dtype is wrong (shows in the page example's print).
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    return np.tril(np.ones((T, T)))


class Attention(Module):

    def forward(self, q, k, v, mask=None):
        head_size = q.shape[-1]
        wei = q @ k.mT / math.sqrt(head_size)                  # (..., T, S)
        if mask is not None:
            wei = np.where(np.equal(mask, 0), -np.inf, wei)     # masked_fill(tril == 0, -inf)
        wei = softmax(wei)
        self.weights = wei
        self.remember(q, k, v, wei)
        return wei @ v

    def backward(self, dout):
        q, k, v, wei = self.recall()
        dwei = dout @ v.mT
        dv = wei.mT @ dout
        dscore = softmax_backward(wei, dwei)
        dscore = dscore / math.sqrt(q.shape[-1])
        return dscore @ k, dscore.mT @ q, dv

# === [-] Attention.forward (line 28) hides with scores[..., ~mask] = -inf, which works only if the mask is exactly
#     (T, S): masks with axes of size 1 or with leading axes, such as (1, S) or (B, 1, 1, S), raise IndexError.
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    rows, columns = np.indices((T, T))
    return columns <= rows


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        d = q.shape[-1]
        scores = np.einsum("...td,...sd->...ts", q, k) / math.sqrt(d)
        if mask is not None:
            scores[..., ~mask] = -np.inf
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p)
        return np.einsum("...ts,...se->...te", p, v)

    def backward(self, dy):
        q, k, v, p = self.recall()
        dp = np.einsum("...te,...se->...ts", dy, v)
        dv = np.einsum("...ts,...te->...se", p, dy)
        ds = softmax_backward(p, dp) / math.sqrt(q.shape[-1])
        dq = np.einsum("...ts,...sd->...td", ds, k)
        dk = np.einsum("...ts,...td->...sd", ds, q)
        return dq, dk, dv

# === [-] masked_softmax in the helper file masking.py (lines 8-12), called by Attention.forward, multiplies the
#     finished softmax by the mask and divides by the new sum instead of using -inf: equal for small scores, but 0 / 0
#     = NaN if a hidden score is far above the visible ones (about 104 in float32, 746 in float64).
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from masking import masked_softmax
from module import Module
from stage01_loss import softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    positions = np.arange(T)
    return positions[None, :] <= positions[:, None]


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(q.shape[-1])
        weights = masked_softmax(scale * (q @ k.mT), mask)
        self.weights = weights
        self.remember(q, k, v, weights, scale)
        return weights @ v

    def backward(self, dy):
        q, k, v, weights, scale = self.recall()
        dv = weights.mT @ dy
        dscores = scale * softmax_backward(weights, dy @ v.mT)
        return dscores @ k, dscores.mT @ q, dv
# --- masking.py
"""Helper of stage 5: softmax over the keys that may be seen."""

from stage01_loss import softmax


def masked_softmax(scores, mask):
    """Weights of the visible keys; each row sums to 1 again, because it is divided by its new sum."""
    p = softmax(scores)
    if mask is None:
        return p
    p = p * mask
    return p / p.sum(axis=-1, keepdims=True)

# === [-] Attention.forward (line 27) divides q by sqrt(d) and remembers the divided q, and backward (lines 40-42)
#     divides dA by sqrt(d) too, so dk has 1 / d instead of 1 / sqrt(d); y, dq and dv are right, and d = 1 does not
#     show it.
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    mask = np.zeros((T, T), dtype=bool)
    for t in range(T):
        mask[t, :t + 1] = True
    return mask


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        q = q / math.sqrt(q.shape[-1])              # smaller than the scores, so divide here
        scores = q @ np.swapaxes(k, -1, -2)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        self.weights = softmax(scores)
        self.remember(q, k, v, self.weights)
        return self.weights @ v

    def backward(self, dy):
        q, k, v, p = self.recall()
        dp = dy @ np.swapaxes(v, -1, -2)
        dv = np.swapaxes(p, -1, -2) @ dy
        dA = softmax_backward(p, dp)
        dA = dA / math.sqrt(q.shape[-1])
        dq = dA @ k
        dk = np.swapaxes(dA, -1, -2) @ q
        return dq, dk, dv

# === [-] transpose (helper of forward and backward of Attention) (line 15): swaps axes 1 and 2 instead of the last
#     two; right for 2 and 3 axes, wrong/error with 4+ axes such as (B,H,T,d)
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def transpose(a):
    """Matrices one by one, also if there is a batch of them."""
    if a.ndim == 2:
        return a.T
    return np.swapaxes(a, 1, 2)


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    i = np.arange(T)
    return i[:, None] >= i[None, :]


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        A = q @ transpose(k) / math.sqrt(q.shape[-1])
        if mask is not None:
            A = np.where(mask, A, -np.inf)
        self.weights = softmax(A)
        self.remember(q, k, v, self.weights)
        return self.weights @ v

    def backward(self, dy):
        q, k, v, p = self.recall()
        dv = transpose(p) @ dy
        dp = dy @ transpose(v)
        dA = softmax_backward(p, dp) / math.sqrt(q.shape[-1])
        return dA @ k, transpose(dA) @ q, dv

# === [-] Attention.forward (line 30): boolean index [..., ~mask] works only for a mask whose shape equals the last
#     axes of the scores; IndexError for masks with axes of size 1 or (B,1,1,S)
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    mask = np.zeros((T, T), dtype=bool)
    for t in range(T):
        mask[t, :t + 1] = True
    return mask


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        scale = 1 / math.sqrt(q.shape[-1])
        scores = np.einsum("...ti,...si->...ts", q, k) * scale
        if mask is not None:
            scores[..., ~mask] = -np.inf
        p = softmax(scores)
        self.weights = p
        self.remember(q, k, v, p, scale)
        return np.einsum("...ts,...se->...te", p, v)

    def backward(self, dy):
        q, k, v, p, scale = self.recall()
        dp = np.einsum("...te,...se->...ts", dy, v)
        dv = np.einsum("...ts,...te->...se", p, dy)
        dA = softmax_backward(p, dp) * scale
        dq = np.einsum("...ts,...si->...ti", dA, k)
        dk = np.einsum("...ts,...ti->...si", dA, q)
        return dq, dk, dv

# === [-] Attention.forward (line 29): with a mask the maximum is taken over all keys, hidden ones too, and the
#     exponentials multiplied by the mask; 0/0=NaN if a hidden score exceeds all visible ones by a lot (about 104 in
#     float32, 745 in float64)
"""Stage 5: scaled dot-product attention of one head, and the causal mask."""

import math

import numpy as np

from module import Module
from stage01_loss import softmax, softmax_backward


def causal_mask(T):
    """A boolean array (T, T), True where query t may see key s: at s <= t."""
    return np.tri(T, dtype=bool)


class Attention(Module):
    """y = p v, p = softmax(q k^T / sqrt(d)); scores that the mask hides become -infinity before the softmax.

    Shape: q (..., T, d), k (..., S, d), v (..., S, e), mask: boolean, True = may see, of a shape that fits (..., T, S), or
        None: everything is visible -> y (..., T, e). `weights` holds the latest p (..., T, S). backward returns dq, dk, dv.
    """

    def forward(self, q, k, v, mask=None):
        A = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        if mask is None:
            p = softmax(A)
        else:
            # softmax over the visible keys only: the hidden ones are no terms of the sum
            a = np.exp(A - A.max(axis=-1, keepdims=True)) * mask
            p = a / a.sum(axis=-1, keepdims=True)
        self.weights = p
        self.remember(q, k, v, p)
        return p @ v

    def backward(self, dy):
        q, k, v, p = self.recall()
        dA = softmax_backward(p, dy @ np.swapaxes(v, -1, -2))
        dA = dA / math.sqrt(q.shape[-1])
        dq = dA @ k
        dk = np.swapaxes(dA, -1, -2) @ q
        dv = np.swapaxes(p, -1, -2) @ dy
        return dq, dk, dv
