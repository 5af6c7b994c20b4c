"""Routers: each token chooses a few of the experts, and gives each of these a weight, its gate."""

import numpy as np

from ..argument_checks import called, check_numbers, check_positive
from ..module import Module
from ..parameter import Constant
from ..types import Seed
from .initial_weights import DTYPE
from .linear import Linear
from .softmax import Softmax


class Router(Module):
    """g = softmax over the k largest logits of x W, exactly 0 for all other experts.

    Parameters:
        d_model : int
        num_experts : int, E
        top_k : int, k, the number of experts that a token chooses
        bias : bool (False), in the Linear `linear`
        rng : generator or seed of the initial weights, or None
    Shape: x (N, d_model) -> g (N, E), of which k in each row are not 0; `chosen` (N, k) are the experts of the latest forward,
        the one with the largest logit first
    Backward: dx = linear backward of softmax backward of dg. The choice itself has no gradient: only chosen experts get one
    Raises: ValueError if k is larger than E.
    Source: Shazeer et al. 2017, equations 3 and 5, without the noise; Jiang et al. 2024 (Mixtral), section 2.1.
    """

    def __init__(self, d_model: int, num_experts: int, top_k: int, bias: bool = False, rng: Seed = None) -> None:
        check_positive(d_model=d_model, num_experts=num_experts, top_k=top_k)
        if top_k > num_experts:
            raise ValueError(f"{called()}top_k = {top_k} is larger than num_experts = {num_experts}; a token can choose each "
                             "expert once")
        self.num_experts = num_experts
        self.top_k = top_k
        self.linear = Linear(d_model, num_experts, bias, rng)
        self.softmax = Softmax()
        self.chosen: np.ndarray | None = None

    def forward(self, x: np.ndarray) -> np.ndarray:
        logits = self.linear(x)
        return self.softmax(np.where(self.choose(logits), logits, -np.inf))

    def backward(self, dg: np.ndarray) -> np.ndarray:
        return self.linear.backward(self.softmax.backward(dg))          # softmax has 0 where g is 0

    def choose(self, scores: np.ndarray) -> np.ndarray:
        """Returns booleans (N, E): the k largest scores of each row, of equal ones the first. Sets `chosen`."""
        self.chosen = (-scores.real).argsort(-1, kind="stable")[:, :self.top_k]
        kept = np.zeros(scores.shape, bool)
        np.put_along_axis(kept, self.chosen, True, -1)
        return kept

    def extra_repr(self) -> str:
        return f"num_experts={self.num_experts}, top_k={self.top_k}"


class SoftmaxRouter(Router):
    """g = softmax of all logits, kept for the k largest ones and 0 for the others; so the gates of a token sum to less than 1.

    Parameters, Raises: as Router
    Shape: as Router
    Backward: dx = linear backward of softmax backward of dg, taken where g is not 0
    Source: Fedus, Zoph and Shazeer 2021 (Switch), equations 1 and 2, where k = 1; Muennighoff et al. 2024 (OLMoE).
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        logits = self.linear(x)
        kept = self.choose(logits)
        self.remember(kept)
        return self.softmax(logits) * kept

    def backward(self, dg: np.ndarray) -> np.ndarray:
        kept = self.recall()
        return self.linear.backward(self.softmax.backward(dg * kept))


class SigmoidRouter(Router):
    """s = sigmoid(x W),   g = factor s / (sum of the chosen s) for the k experts with the largest s + c, and 0 for the others.

    The correction c moves the choice alone, and has no gradient: raised for idle experts and lowered for busy ones, it balances
    them without a loss. The experts may form groups, of which a token first chooses the best ones, by the sum of their two
    largest s + c.

    Parameters: d_model, num_experts, top_k, rng=None : as in Router; factor : float (1.0);
        num_groups, top_groups : int (1, 1), the number of groups and how many of them a token may choose from
    Shape: as Router; `correction` (E,), a Constant, 0 at first
    Backward: with S = sum of the chosen s:   ds = (factor dg - sum_j dg_j g_j) / S for the chosen,   dx = linear backward of
        ds s (1 - s)
    Raises: as Router, and ValueError if the groups are no division of the experts or hold too few of them.
    Source: DeepSeek-AI 2024 (DeepSeek-V3), equations 13 to 16; the groups: its section 2.1.2 and published code.
    """

    def __init__(self, d_model: int, num_experts: int, top_k: int, factor: float = 1.0, num_groups: int = 1, top_groups: int = 1,
                 rng: Seed = None) -> None:
        super().__init__(d_model, num_experts, top_k, rng=rng)
        del self.softmax                                    # its gates are quotients of sigmoids
        check_numbers(factor=factor)
        check_positive(num_groups=num_groups, top_groups=top_groups)
        size = num_experts // num_groups
        if num_experts % num_groups or top_groups > num_groups or top_groups * size < top_k or (num_groups > 1 and size < 2):
            raise ValueError(f"{called()}{num_experts} experts in {num_groups} groups, of which {top_groups} may be chosen: a token "
                             f"needs groups of one size, at least 2 each, with {top_k} experts in those that it chooses")
        self.factor = factor
        self.num_groups = num_groups
        self.top_groups = top_groups
        self.correction = Constant(np.zeros(num_experts, DTYPE))

    def forward(self, x: np.ndarray) -> np.ndarray:
        s = sigmoid(self.linear(x))
        kept = self.choose(self.within_groups(s.real + self.correction.data.real))
        total = (s * kept).sum(-1, keepdims=True)
        total += total == 0                             # all chosen s are 0 for logits far below 0: so are the gates
        g = self.factor * s * kept / total
        self.remember(s, kept, total, g)
        return g

    def backward(self, dg: np.ndarray) -> np.ndarray:
        s, kept, total, g = self.recall()
        ds = kept * (self.factor * dg - (dg * g).sum(-1, keepdims=True)) / total
        return self.linear.backward(ds * s * (1 - s))

    def within_groups(self, scores: np.ndarray) -> np.ndarray:
        """Returns the scores (N, E), -inf outside of the groups that each token chooses."""
        groups = scores.reshape(len(scores), self.num_groups, -1)
        if self.top_groups == self.num_groups:
            return scores
        best = np.sort(groups, -1)[..., -2:].sum(-1)
        chosen = (-best).argsort(-1, kind="stable")[:, :self.top_groups]
        kept = np.zeros(best.shape, bool)
        np.put_along_axis(kept, chosen, True, -1)
        return np.where(kept[..., None], groups, -np.inf).reshape(scores.shape)


def sigmoid(z: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-z)) without overflow, and with all its digits for z far below 0, which quotients of gates need."""
    is_negative = z.real < 0
    return np.exp(np.where(is_negative, z, 0)) / (1 + np.exp(np.where(is_negative, z, -z)))
