"""Multi-head attention and its two uses: a sequence attends to itself, or to another sequence."""

from typing import Any

import numpy as np

from ..argument_checks import called, check_divides, check_positive
from ..module import Module, Parameter
from ..types import Component, Seed
from .attention import ScaledDotProductAttention
from .grouped import GroupedAttention
from .heads import merge_heads, split_heads
from .linear import Linear
from .token_positions import current_positions


def width_of_head(d_model: int, num_heads: int, d_head: int | None = None) -> int:
    """Returns d_head, or d_model / num_heads if it is None.

    Raises: ValueError unless the result is a positive integer.
    """
    if d_head is None:
        check_divides("d_model", d_model, "num_heads", num_heads)
        return d_model // num_heads
    check_positive(d_head=d_head)
    return d_head


class MultiHeadAttention(Module):
    """y = concat(head_1, ..., head_H) W_O,   head_h = Attention(query W_Q^h, key W_K^h, value W_V^h).

    Parameters:
        d_model : int
        num_heads : int, divides d_model; each head has d = d_model / num_heads features, unless d_head is given
        num_kv_heads : int or None (num_heads); fewer let groups of query heads share keys and values
        dropout : float (0.0), on the attention weights
        bias : bool (True), in the Linears `query`, `key`, `value` and `output`
        rotary : RotaryEmbedding or None; rotates queries and keys
        attention : ScaledDotProductAttention (None: a new one) or another component that takes q, k, v and a mask, such as
            FlashAttention
        rng : generator or seed of initial weights and dropout, or None
        d_head : int or None (d_model / num_heads), the width d of a head
    Shape: query (B, T, d_model), key and value (B, S, d_model), mask 2-D or 4-D -> y (B, T, d_model); B may be absent.
        `weights` (B, H, T, S) are those of the latest forward.
    Backward: each step of forward in reverse; returns dquery, dkey, dvalue
    Raises: ValueError if num_kv_heads does not divide num_heads or, without d_head, num_heads does not divide d_model.
    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int | None = None, dropout: float = 0.0,
                 bias: bool = True, rotary: Component | None = None, attention: Component | None = None, rng: Seed = None,
                 d_head: int | None = None) -> None:
        d_head = width_of_head(d_model, num_heads, d_head)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_divides("num_heads", num_heads, "num_kv_heads", num_kv_heads)
        rng = np.random.default_rng(rng)
        if attention is None:
            plain = ScaledDotProductAttention if num_kv_heads == num_heads else GroupedAttention
            attention = plain(dropout, rng)
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.query = Linear(d_model, num_heads * d_head, bias, rng)
        self.key = Linear(d_model, num_kv_heads * d_head, bias, rng)
        self.value = Linear(d_model, num_kv_heads * d_head, bias, rng)
        self.rotary = rotary
        self.attention = attention
        self.output = Linear(num_heads * d_head, d_model, bias, rng)

    @property
    def weights(self) -> np.ndarray | None:
        """The attention weights (B, H, T, S) of the latest forward."""
        return self.attention.weights

    def forward(self, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        if np.ndim(query) < 2 or np.ndim(key) < 2:
            raise ValueError(f"{called()}attention takes (B, T, d_model) or (T, d_model), got shapes {np.shape(query)} and "
                             f"{np.shape(key)}; add the missing axis with x[None]")
        q = split_heads(self.query(query), self.num_heads)
        k = split_heads(self.key(key), self.num_kv_heads)
        v = split_heads(self.value(value), self.num_kv_heads)
        if self.rotary is not None:
            positions = current_positions(query.shape[-2])
            q = self.rotary(q, positions=positions)
            k = self.rotary(k, positions=positions)
        return self.output(merge_heads(self.attention(q, k, v, mask)))

    def backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        dq, dk, dv = self.attention.backward(split_heads(self.output.backward(dy), self.num_heads))
        if self.rotary is not None:
            dk = self.rotary.backward(dk)       # last in, first out
            dq = self.rotary.backward(dq)
        dquery = self.query.backward(merge_heads(dq))
        dkey = self.key.backward(merge_heads(dk))
        dvalue = self.value.backward(merge_heads(dv))
        return dquery, dkey, dvalue

    def extra_repr(self) -> str:
        grouped = f", num_kv_heads={self.num_kv_heads}" if self.num_kv_heads != self.num_heads else ""
        return f"d_model={self.query.d_in}, num_heads={self.num_heads}{grouped}"


class SelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to itself: x is query, key and value.

    Parameters: d_model, num_heads, num_kv_heads=None, dropout=0.0, bias=True, rotary=None, attention=None, rng=None,
        d_head=None : as in MultiHeadAttention
    Shape: x (B, T, d_model), mask=None -> y (B, T, d_model); B may be absent. The mask is boolean, True = may attend, 2-D
        (T, T) or 4-D (B or 1, num_heads or 1, T or 1, T). `weights` (B, num_heads, T, T) are those of the latest forward.
    Backward: dx = dquery + dkey + dvalue, because x was used three times
    Raises: as MultiHeadAttention
    Source: Vaswani et al. 2017, section 3.2.3.
    """

    def forward(self, x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return super().forward(x, x, x, mask)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        dquery, dkey, dvalue = super().backward(dy)
        return dquery + dkey + dvalue


class CrossAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to another one: queries from x, keys and values from memory.

    Parameters: d_model, num_heads, num_kv_heads=None, dropout=0.0, bias=True, rotary=None, attention=None, rng=None,
        d_head=None : as in MultiHeadAttention
    Shape: x (B, T, d_model), memory (B, S, d_model), mask=None -> y (B, T, d_model); B may be absent. The mask is boolean,
        True = may attend, 2-D (T, S) or 4-D (B or 1, num_heads or 1, T or 1, S). `weights` (B, num_heads, T, S) are those
        of the latest forward.
    Backward: dx = dquery,   dmemory = dkey + dvalue, because memory was used twice
    Raises: as MultiHeadAttention
    Source: Vaswani et al. 2017, section 3.2.3.
    """

    def forward(self, x: np.ndarray, memory: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        return super().forward(x, memory, memory, mask)

    def backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dquery, dkey, dvalue = super().backward(dy)
        return dquery, dkey + dvalue


def add_qkv_bias(attention: Component) -> Any:
    """Gives the Linears query, key and value of an attention without biases one each, zeros at first, as in Qwen2."""
    for linear in (attention.query, attention.key, attention.value):
        linear.bias = Parameter(np.zeros(linear.d_out, linear.weight.data.dtype))
    return attention
