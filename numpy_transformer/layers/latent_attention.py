"""Multi-head latent attention: keys and values of all heads are computed from one narrow vector of each token."""

import numpy as np

from ..argument_checks import called, check_positive
from ..module import Module
from ..types import Component, Seed
from .attention import ScaledDotProductAttention
from .heads import merge_heads, split_heads
from .linear import Linear
from .normalization import RMSNorm
from .soft_cap import RescaledAttention
from .token_positions import current_positions


class LatentAttention(Module):
    """y = concat(head_1, ..., head_H) W_O,   head_h = Attention([q_h; q_h^R], [k_h; k^R], v_h).

    The latent vector of a token, c = norm(x W_down), is narrow, and [k_h; v_h] = c W_up^h are computed from it. Positions are
    in a part of their own: k^R = x W_R, rotated, which all heads share, and the second part of [q_h; q_h^R] = x W_Q^h,
    rotated. Scores are divided by sqrt(d_head + d_rotary).

    Here a key-value cache keeps the keys and values of all heads. The d_latent + d_rotary numbers of c and k^R would be
    enough, and they are what it keeps for AbsorbedLatentAttention, which computes the same function.

    Parameters:
        d_model, num_heads : int
        d_latent : int, the width of c
        d_head : int, the width of the part of a head's queries and keys that is not rotated
        d_rotary : int, the width of the part that is rotated
        d_value : int or None (d_head), the width of a head's values
        rotary : RotaryEmbedding(d_rotary), or another component that takes x and positions
        query : Linear(d_model, num_heads * (d_head + d_rotary)), or another component of these widths, such as two Linears
            with a norm between them; None: a new one
        attention : ScaledDotProductAttention (None: a new one) or another component that takes q, k, v and a mask
        eps : float (1e-6), of the norm
        rng : generator or seed of the initial weights, or None
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent. `weights` (B, H, T, S) are those of the latest
        forward.
    Backward: each step of forward in reverse; the gradients of k^R are added over the heads, those of c over keys and values, and
        those of x over queries, c and k^R
    Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1, equations 9 to 19, and section 3.1.2 for the norm; equations 12 and 13
        are a low-rank `query`. Without biases, as in its published configurations.
    """

    def __init__(self, d_model: int, num_heads: int, d_latent: int, d_head: int, d_rotary: int, d_value: int | None = None,
                 rotary: Component | None = None, query: Component | None = None, attention: Component | None = None,
                 eps: float = 1e-6, rng: Seed = None) -> None:
        d_value = d_head if d_value is None else d_value
        check_positive(d_model=d_model, num_heads=num_heads, d_latent=d_latent, d_head=d_head, d_rotary=d_rotary, d_value=d_value)
        rng = np.random.default_rng(rng)
        self.num_heads = num_heads
        self.d_head = d_head
        self.d_latent = d_latent
        self.query = Linear(d_model, num_heads * (d_head + d_rotary), False, rng) if query is None else query
        self.down = Linear(d_model, d_latent, False, rng)
        self.norm = RMSNorm(d_latent, eps)
        self.up = Linear(d_latent, num_heads * (d_head + d_value), False, rng)
        self.rotary_key = Linear(d_model, d_rotary, False, rng)
        self.rotary = rotary
        self.attention = ScaledDotProductAttention() if attention is None else attention
        self.output = Linear(num_heads * d_value, d_model, False, rng)

    @property
    def weights(self) -> np.ndarray | None:
        """The attention weights (B, H, T, S) of the latest forward."""
        return self.attention.weights

    def forward(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        q = split_heads(self.query(x), self.num_heads)                          # (B, H, T, d_head + d_rotary)
        c = self.norm(self.down(x))                                             # (B, T, d_latent)
        k_rotary = self.rotary_key(x)[..., None, :, :]                          # (B, 1, T, d_rotary)
        n = self.d_head
        q = np.concatenate([q[..., :n], self.rotate(q[..., n:])], -1)
        k_rotary = self.rotate(k_rotary)
        return self.output(merge_heads(self.attend(q, c, k_rotary, mask)))

    def backward(self, dy: np.ndarray) -> np.ndarray:
        dq, dc, dk_rotary = self.attend_backward(split_heads(self.output.backward(dy), self.num_heads))
        n = self.d_head
        dk_rotary = self.rotate_backward(dk_rotary)                             # last in, first out
        dq = np.concatenate([dq[..., :n], self.rotate_backward(dq[..., n:])], -1)
        dx = self.rotary_key.backward(dk_rotary[..., 0, :, :])
        dx = dx + self.down.backward(self.norm.backward(dc))
        return dx + self.query.backward(merge_heads(dq))

    def attend(self, q: np.ndarray, c: np.ndarray, k_rotary: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Returns the heads (B, H, T, d_value): keys and values of every head are made of c."""
        kv = split_heads(self.up(c), self.num_heads)
        k, v = kv[..., :self.d_head], kv[..., self.d_head:]
        k_rotary = np.broadcast_to(k_rotary, (*k.shape[:-1], k_rotary.shape[-1]))
        return self.attention(q, np.concatenate([k, k_rotary], -1), v, mask)

    def attend_backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns dq, dc and the gradient of k_rotary."""
        dq, dk, dv = self.attention.backward(dy)
        dk_rotary = dk[..., self.d_head:].sum(-3, keepdims=True)                # all heads share it
        dc = self.up.backward(merge_heads(np.concatenate([dk[..., :self.d_head], dv], -1)))
        return dq, dc, dk_rotary

    def rotate(self, x: np.ndarray) -> np.ndarray:
        """Returns queries or keys rotated by their positions."""
        return x if self.rotary is None else self.rotary(x, positions=current_positions(x.shape[-2]))

    def rotate_backward(self, dy: np.ndarray) -> np.ndarray:
        """Returns the gradient of what `rotate` was given."""
        return dy if self.rotary is None else self.rotary.backward(dy)

    def extra_repr(self) -> str:
        return f"d_model={self.down.d_in}, num_heads={self.num_heads}, d_latent={self.d_latent}"


class AbsorbedLatentAttention(LatentAttention):
    """LatentAttention whose queries attend to the latent vectors c themselves.

    W_up moves from the keys to the queries, because q (c W_K)ᵀ = (q W_Kᵀ) cᵀ, and from the values to the outputs, because
    P (c W_V) = (P c) W_V. All heads then share one key [c; k^R] and one value c, so a cache holds d_latent + d_rotary numbers
    for a token. Parameters and outputs are those of LatentAttention.

    Parameters, Shape: as LatentAttention. The scores are still divided by sqrt(d_head + d_rotary), so `attention` must not
        scale by the width of what it is given, d_latent + d_rotary; None makes a RescaledAttention.
    Backward: each step of forward in reverse. W_K and W_V are the two parts of W_up, and each gets its gradient from the
        product in which it stands: dW_K = d(q W_Kᵀ)ᵀ q,   dW_V = (P c)ᵀ dy
    Raises: ValueError if `up` is no longer a Linear, but has a LoRA update or rounds its weight.
    Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.2, and its appendix with the full formulas.
    """

    def __init__(self, d_model: int, num_heads: int, d_latent: int, d_head: int, d_rotary: int, d_value: int | None = None,
                 rotary: Component | None = None, query: Component | None = None, attention: Component | None = None,
                 eps: float = 1e-6, rng: Seed = None) -> None:
        if attention is None:
            attention = RescaledAttention((d_head + d_rotary) ** -0.5)
        super().__init__(d_model, num_heads, d_latent, d_head, d_rotary, d_value, rotary=rotary, query=query, attention=attention,
                         eps=eps, rng=rng)

    def attend(self, q: np.ndarray, c: np.ndarray, k_rotary: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        w_k, w_v = self.up_by_head()
        n = self.d_head
        k = np.concatenate([c[..., None, :, :], k_rotary], -1)                  # (B, 1, T, d_latent + d_rotary)
        absorbed = np.concatenate([q[..., :n] @ w_k.mT, q[..., n:]], -1)        # (B, H, T, d_latent + d_rotary)
        mean = self.attention(absorbed, k, c[..., None, :, :], mask)            # (B, H, T, d_latent)
        self.remember(q, mean)
        return mean @ w_v

    def attend_backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, mean = self.recall()
        w_k, w_v = self.up_by_head()
        n = self.d_head
        dabsorbed, dk, dv = self.attention.backward(dy @ w_v.mT)                # y = mean @ w_v
        dq = np.concatenate([dabsorbed[..., :self.d_latent] @ w_k, dabsorbed[..., self.d_latent:]], -1)
        dw_v = mean.mT @ dy
        dw_k = dabsorbed[..., :self.d_latent].mT @ q[..., :n]                   # absorbed = q @ w_k.mT
        dw = np.concatenate([dw_k, dw_v], -1).reshape(-1, self.num_heads, self.d_latent, w_k.shape[-1] + w_v.shape[-1]).sum(0)
        self.up.weight.grad += dw.swapaxes(0, 1).reshape(self.up.weight.data.shape)
        return dq, (dk[..., :self.d_latent] + dv)[..., 0, :, :], dk[..., self.d_latent:]

    def up_by_head(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns W_up as (H, d_latent, d_head) for the keys and (H, d_latent, d_value) for the values, views of it."""
        if not isinstance(self.up, Linear):
            raise ValueError(f"{called()}`up` is a {type(self.up).__name__}, whose weight alone does not say what it computes; "
                             "adapt a LatentAttention, merge, and load its state_dict here")
        w = self.up.weight.data.reshape(self.d_latent, self.num_heads, -1).swapaxes(0, 1)
        return w[..., :self.d_head], w[..., self.d_head:]
