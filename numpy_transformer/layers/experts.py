"""A mixture of experts: many feed-forward layers, of which each token uses a few."""

from collections.abc import Sequence

import numpy as np

from ..argument_checks import called, check_array, check_positive
from ..module import Module
from ..types import Component, Seed
from .fast import rows
from .linear import Linear


class MixtureOfExperts(Module):
    """y = sum_e g_e(x) expert_e(x) + shared(x), where g(x) is 0 for all experts but the few that the token has chosen.

    The pairs of token and expert are sorted by expert, so each expert is called once, with exactly the tokens that have chosen
    it: none is dropped, and there is no limit to how many one expert gets. One that nobody has chosen is not called.

    Parameters:
        router : Router, or another component that takes x (N, d_model), returns g (N, E), and keeps `chosen` (N, k)
        experts : list of E SwiGLUs, FeedForwards or other components that take x
        shared : component that takes x and serves every token, or None
    Shape: x (..., d_model) -> y (..., d_model)
    Backward:
        for each expert and its tokens:  dg_e = sum over features of dy expert_e(x),   dx += expert_e backward of g_e dy
        and then  dx += router backward of dg + shared backward of dy
    Raises: ValueError unless there are as many experts as the router chooses from.
    Source: Shazeer et al. 2017, equation 1; sorting instead of dropping: Gale et al. 2022 (MegaBlocks); shared experts: Dai
        et al. 2024 (DeepSeekMoE), section 3.2.
    """

    def __init__(self, router: Component, experts: Sequence[Component], shared: Component | None = None) -> None:
        if len(experts) != router.num_experts:
            raise ValueError(f"{called()}there are {len(experts)} experts, but the router chooses among {router.num_experts}; "
                             "build both with the same number")
        self.router = router
        self.experts = list(experts)
        self.shared = shared

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_array(self, x)
        shape, x = x.shape, rows(x)
        g = self.router(x)
        tokens_of = self.dispatch(self.router.chosen)
        y = np.zeros_like(x, dtype=g.dtype)
        outputs = []
        for e, tokens in enumerate(tokens_of):
            outputs.append(self.experts[e](x[tokens]) if tokens.size else None)
            if tokens.size:
                y[tokens] += g[tokens, e, None] * outputs[e]                    # a token occurs once for each expert
        if self.shared is not None:
            y = y + self.shared(x)
        self.remember(g, tokens_of, outputs)
        return y.reshape(shape)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        g, tokens_of, outputs = self.recall()
        shape, dy = dy.shape, rows(dy)
        dx = np.zeros_like(dy, dtype=g.dtype)
        dg = np.zeros_like(g)
        if self.shared is not None:
            dx = dx + self.shared.backward(dy)
        for e, tokens in reversed(list(enumerate(tokens_of))):
            if tokens.size:
                dg[tokens, e] = (dy[tokens] * outputs[e]).sum(-1)               # y += g_e * output
                dx[tokens] += self.experts[e].backward(g[tokens, e, None] * dy[tokens])
        return (dx + self.router.backward(dg)).reshape(shape)

    def dispatch(self, chosen: np.ndarray) -> list[np.ndarray]:
        """(N, k) -> for each expert the tokens that have chosen it, in their order."""
        order = chosen.ravel().argsort(kind="stable")                           # pairs of a token and an expert, by expert
        counts = np.bincount(chosen.ravel(), minlength=len(self.experts))
        return np.split(order // chosen.shape[-1], counts.cumsum()[:-1])


class ClampedSwiGLU(Module):
    """y = down(u a + a),   a = z sigmoid(1.702 z),   z = min(gate x, limit),   u = up x, clamped to ±limit.

    Parameters:
        d_model : int, the width of input and output
        d_ff : int, the width of the hidden layer
        limit : float (7.0)
        bias : bool (True), in the Linears `gate`, `up` and `down`
        rng : generator or seed of the initial weights, or None
    Shape: x (..., d_model) -> y (..., d_model)
    Backward:
        with dh = down backward of dy:   dz = dh (u + 1) a'(z),   du = dh a, and both are 0 where they were clamped;
        dx = gate backward of dz + up backward of du
    Raises: ValueError if the last dimension of x is not d_model.
    Source: OpenAI 2025 (gpt-oss), section 2, and its published code, from which 1.702 and the limit come.
    """

    slope = 1.702

    def __init__(self, d_model: int, d_ff: int, limit: float = 7.0, bias: bool = True, rng: Seed = None) -> None:
        check_positive(d_model=d_model, d_ff=d_ff)
        rng = np.random.default_rng(rng)
        self.limit = limit
        self.gate = Linear(d_model, d_ff, bias, rng)
        self.up = Linear(d_model, d_ff, bias, rng)
        self.down = Linear(d_ff, d_model, bias, rng)

    def forward(self, x: np.ndarray) -> np.ndarray:
        z, u = self.gate(x), self.up(x)
        z_free, u_free = z.real < self.limit, np.abs(u.real) < self.limit
        z = np.where(z_free, z, self.limit)
        u = np.where(u_free, u, self.limit * np.sign(u.real))
        sigmoid = (1 + np.tanh(self.slope * z / 2)) / 2                         # in a form that cannot overflow
        self.remember(z, u, sigmoid, z_free, u_free)
        return self.down((u + 1) * z * sigmoid)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        z, u, sigmoid, z_free, u_free = self.recall()
        dh = self.down.backward(dy)
        slope_of_a = sigmoid * (1 + self.slope * z * (1 - sigmoid))             # of a = z sigmoid(1.702 z)
        dx = self.up.backward(dh * z * sigmoid * u_free)
        return dx + self.gate.backward(dh * (u + 1) * slope_of_a * z_free)

    def extra_repr(self) -> str:
        return f"limit={self.limit:g}"
