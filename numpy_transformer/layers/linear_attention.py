"""Linear attention: the weights are products of features instead of exponentials, so that a running sum can replace the keys."""

from typing import Any

import numpy as np

from ..argument_checks import called, check_array
from ..module import Module
from .attention import check_shapes, repeat_heads, sum_over_groups
from .masks import fit_mask


def features(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns φ(x) = elu(x) + 1, which is x + 1 where x > 0, else exp(x), and its derivative: 1 where x > 0, else exp(x)."""
    positive = x.real > 0
    slope = np.exp(np.where(positive, 0, x))                        # never of a large number
    return np.where(positive, x + 1, slope), slope


class LinearAttention(Module):
    """y = P v,   P_tj = φ(q_t) · φ(k_j) / sum_i φ(q_t) · φ(k_i),   φ(x) = elu(x) + 1: x + 1 where x > 0, else exp(x).

    This is attention with the similarity φ(q) · φ(k) in place of exp(q · k / sqrt(d)). It holds all (T, S) weights, as plain attention.
    RecurrentLinearAttention computes the same for a causal mask without them.

    A masked key has weight exactly 0, and the output of a query that may attend to nothing is 0.

    Shape: as ScaledDotProductAttention. `weights` (B, H, T, S) are those of the latest forward.
    Backward: dP = dy vᵀ,   dA_tj = (dP_tj - sum_i dP_ti P_ti) / total_t,   dφ(q) = dA φ(k),   dφ(k) = dAᵀ φ(q),   dv = Pᵀ dy
    Raises: as ScaledDotProductAttention
    Source: Katharopoulos et al. 2020, equations 4, 7 and 8.
    """

    def __init__(self) -> None:
        self.weights: np.ndarray | None = None

    def forward(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        check_array(self, q, k, v)
        check_shapes(q, k, v)
        (q, q_slope), (k, k_slope) = features(q), features(k)
        a = q @ repeat_heads(k, q).mT                               # (B, H, T, S)
        if mask is not None:
            a = np.where(fit_mask(mask, a.shape), a, 0)
        total = without_zeros(a.sum(-1, keepdims=True))
        p = a / total
        self.remember(q, k, v, mask, p, total, q_slope, k_slope)
        self.weights = p.view()
        self.weights.flags.writeable = False                        # read-only, because backward needs these values unchanged
        return p @ repeat_heads(v, q)

    def backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, k, v, mask, p, total, q_slope, k_slope = self.recall()
        dp = dy @ repeat_heads(v, q).mT                             # y = p @ v
        dv = sum_over_groups(p.mT @ dy, v)
        da = (dp - (dp * p).sum(-1, keepdims=True)) / total         # p = a / a.sum()
        if mask is not None:
            da = np.where(fit_mask(mask, da.shape), da, 0)
        dq = da @ repeat_heads(k, q)                                # a = q @ k.mT
        dk = sum_over_groups(da.mT @ q, k)
        return dq * q_slope, dk * k_slope, dv


class RecurrentLinearAttention(Module):
    """y_t = φ(q_t) U_t / φ(q_t) · z_t,   U_t = U_(t-1) + φ(k_t)ᵀ v_t,   z_t = z_(t-1) + φ(k_t), token by token.

    It gives the outputs and gradients of a LinearAttention with the causal mask. Each head carries a state of d (e + 1) numbers from
    token to token, however long the text is, and a text of T tokens takes T times the same work. A KeyValueCache keeps keys and values
    and not the state, so with one the state is computed again for each new token.

    Shape: q (B, H, T, d), k (B, G, S, d), v (B, G, S, e), mask=None -> y (B, H, T, e); B may be absent, or both B and H. The T queries
        are the last of the S tokens, and query t sees the keys 0 to S - T + t. Of these, a mask may hide keys from all queries
        (padding). `weights` is None.
    Backward: with v' = [v, 1], u = φ(q) U' and y = u_(1..e) / u_(e+1):   du = [dy, -dy · y] / u_(e+1).
        Forward in time, with the states computed again:   dφ(q_t) = du_t U'_tᵀ.
        Backward in time, with R_t = R_(t+1) + φ(q_t)ᵀ du_t, the gradient of the state:   dφ(k_t) = v'_t R_tᵀ,   dv'_t = φ(k_t) R_t
    Raises: ValueError if there are more queries than keys, or if the mask hides a key from some queries only.
    Source: Katharopoulos et al. 2020, equations 9 to 12, gradients: 13 to 15.
    """

    causal = True                                                   # a model need not pass the causal mask

    def __init__(self) -> None:
        self.weights = None

    def forward(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        check_array(self, q, k, v)
        check_shapes(q, k, v)
        keep = kept_keys(mask, (*q.shape[:-1], k.shape[-2]))
        (q, q_slope), (k, k_slope) = features(q), features(k)
        keys = repeat_heads(k, q) * keep
        v1 = with_ones(repeat_heads(v, q))                          # the column of ones makes z a column of the state
        u = np.empty((*q.shape[:-1], v1.shape[-1]), np.result_type(q, k, v))
        state, ahead = first_state(q, keys, v1)
        for t in range(q.shape[-2]):
            state = state + column(keys, ahead + t) * row(v1, ahead + t)            # (..., d, 1) * (..., 1, e + 1)
            u[..., t, :] = (row(q, t) @ state)[..., 0, :]
        total = without_zeros(u[..., -1:])
        y = u[..., :-1] / total
        self.remember(q, k, v, keep, y, total, q_slope, k_slope)
        return y

    def backward(self, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        q, k, v, keep, y, total, q_slope, k_slope = self.recall()
        keys, v1 = repeat_heads(k, q) * keep, with_ones(repeat_heads(v, q))
        du = np.concatenate([dy, -(dy * y).sum(-1, keepdims=True)], -1) / total     # y = u[..., :-1] / u[..., -1:]
        dq, dkeys, dv1 = (np.empty(x.shape, np.result_type(dy, x)) for x in (q, keys, v1))
        state, ahead = first_state(q, keys, v1)
        for t in range(q.shape[-2]):                                # the states of forward, computed again
            state = state + column(keys, ahead + t) * row(v1, ahead + t)
            dq[..., t, :] = (row(du, t) @ state.mT)[..., 0, :]      # u_t = q_t @ state_t
        dstate = np.zeros(state.shape, du.dtype)                    # what all later queries make of the state
        for t in reversed(range(q.shape[-2])):
            dstate = dstate + column(q, t) * row(du, t)
            dkeys[..., ahead + t, :] = (row(v1, ahead + t) @ dstate.mT)[..., 0, :]
            dv1[..., ahead + t, :] = (row(keys, ahead + t) @ dstate)[..., 0, :]
        dkeys[..., :ahead, :] = v1[..., :ahead, :] @ dstate.mT      # the keys before the first query
        dv1[..., :ahead, :] = keys[..., :ahead, :] @ dstate
        dk = sum_over_groups(dkeys * keep, k)
        dv = sum_over_groups(dv1[..., :-1], v)
        return dq * q_slope, dk * k_slope, dv


def without_zeros(total: np.ndarray) -> np.ndarray:
    """Returns the totals with 1 in place of 0, so that a query that sees no key gets 0 and not 0/0."""
    return np.where(total == 0, 1, total)


def with_ones(v: np.ndarray) -> np.ndarray:
    """(..., S, e) -> (..., S, e + 1), with ones in the last column."""
    return np.concatenate([v, np.ones_like(v[..., :1])], -1)


def row(x: np.ndarray, t: int) -> np.ndarray:
    """(..., T, n) -> (..., 1, n), of token t."""
    return x[..., t, None, :]


def column(x: np.ndarray, t: int) -> np.ndarray:
    """(..., T, n) -> (..., n, 1), of token t."""
    return x[..., t, :, None]


def first_state(q: np.ndarray, keys: np.ndarray, v1: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns the state (..., d, e + 1) of the keys before the first query, and their number."""
    ahead = keys.shape[-2] - q.shape[-2]
    if ahead < 0:
        raise ValueError(f"{called()}T = {q.shape[-2]} queries but S = {keys.shape[-2]} keys in causal attention, where query t sees "
                         "keys 0 to S - T + t: the first would see none; pass at least T keys, or use LinearAttention")
    return keys[..., :ahead, :].mT @ v1[..., :ahead, :], ahead


def kept_keys(mask: np.ndarray | None, shape: tuple[int, ...]) -> Any:
    """Returns booleans (..., S, 1): whether a key may be seen by the queries at and after it; True if there is no mask."""
    if mask is None:
        return True
    mask = fit_mask(mask, shape)
    keep, (T, S) = mask[..., -1:, :], shape[-2:]                    # the last query sees all that is not hidden
    if np.any((mask != keep) & np.tri(T, S, S - T, dtype=bool)):
        raise ValueError(f"{called()}the mask hides a key from some of the queries after it, but a running state has no way to leave "
                         "it out again; use LinearAttention, or a mask of padding tokens")
    return keep.mT
