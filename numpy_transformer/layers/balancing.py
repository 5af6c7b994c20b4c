"""Balance between the experts: a loss for it, a correction of the choice without a loss, and how even the use is."""

import math

import numpy as np

from ..argument_checks import called, check_numbers
from ..module import Module
from ..types import Component
from .routers import SigmoidRouter
from .softmax import Softmax


class BalancedRouter(Module):
    """g = router(x), unchanged, with the loss   coefficient E sum_e f_e P_e   that asks for an equal use of the experts.

    f_e is the share of all choices that fell on expert e, and P_e the mean over the tokens of the softmax of all logits.
    f counts, so it has no gradient; the gradient reaches the logits through P, most where f is large. With an equal use
    the loss is the coefficient, and with all tokens at one expert up to E / k times as much.

    This loss does not go into the output, so `backward` is not the gradient of the output's loss alone: it adds the
    gradient of `auxiliary_loss`. A training loop therefore needs nothing new, and its loss does not contain this one.
    `gradcheck` adds the `auxiliary_loss` of every part to what it differentiates. The part that is added does not depend
    on dg, so if the loss is multiplied by a number before backward, set `loss_scale` to this number. The Trainer does so for
    each part of a batch: a step then has the mean of their balancing losses, weighted by the targets that they count.

    Parameters:
        router : Router, or another component with a Linear `linear` for the logits, which keeps `chosen`
        coefficient : float (0.01)
    Shape: x (N, d_model) -> g (N, E); `chosen` (N, k) as in the router, and `auxiliary_loss`, the loss of the latest forward
    Backward: dlogits = loss_scale (1) times softmax backward of coefficient E f / N,   dx = router backward of dg + linear
        backward of dlogits
    Source: Fedus, Zoph and Shazeer 2021 (Switch), equations 4 to 6, where k = 1; the idea: Lepikhin et al. 2020 (GShard),
        section 2.2; f as a share of the choices: Dai et al. 2024 (DeepSeekMoE), section 3.3.
    """

    def __init__(self, router: Component, coefficient: float = 0.01) -> None:
        check_numbers(coefficient=coefficient)
        self.router = router
        self.softmax = Softmax()
        self.coefficient = coefficient
        self.auxiliary_loss = 0.0
        self.loss_scale = 1.0

    @property
    def num_experts(self) -> int:
        """How many experts the router chooses from."""
        return self.router.num_experts

    @property
    def chosen(self) -> np.ndarray | None:
        """The experts of each token in the latest forward, (N, k)."""
        return self.router.chosen

    def forward(self, x: np.ndarray) -> np.ndarray:
        g = self.router(x)
        p = self.softmax(self.router.linear(x))                         # the second use of the Linear
        counts = tokens_per_expert(self.router)
        f = counts / counts.sum()
        dP = (self.coefficient * self.num_experts * f).astype(p.real.dtype)
        self.auxiliary_loss = dP @ p.mean(0)                            # of type complex for the complex step
        self.remember(np.broadcast_to(dP / len(x), p.shape))
        return g

    def backward(self, dg: np.ndarray) -> np.ndarray:
        dp = self.recall()
        dx = self.router.linear.backward(self.softmax.backward(self.loss_scale * dp))
        return dx + self.router.backward(dg)

    def extra_repr(self) -> str:
        return f"coefficient={self.coefficient:g}"


class BiasBalancing:
    """c_e += rate sign(mean count - count_e) after each step: the correction of idle experts rises, that of busy ones falls.

    Counted are the choices of the latest forward. The correction moves the choice of a SigmoidRouter alone, so no gradient
    disturbs what the model learns. Use it like a schedule: `optimizer.step()`, then `balancing.step()`.

    Parameters:
        model : Module that contains SigmoidRouters; each is balanced by itself
        rate : float (0.001)
    Raises: ValueError if the model has no SigmoidRouter, or if `step` comes before the first forward.
    Source: Wang et al. 2024, algorithm 1; DeepSeek-AI 2024 (DeepSeek-V3), section 2.1.2.
    """

    def __init__(self, model: Module, rate: float = 0.001) -> None:
        check_numbers(rate=rate)
        self.routers = [part for _, part in model.named_modules() if isinstance(part, SigmoidRouter)]
        if not self.routers:
            raise ValueError(f"{called()}{type(model).__name__} contains no SigmoidRouter; only its `correction` can be "
                             "raised or lowered, so build the model with one, or balance with a BalancedRouter")
        self.rate = rate

    def step(self) -> None:
        """Moves the correction of each router by one step."""
        for router in self.routers:
            counts = tokens_per_expert(router)
            router.correction.data += self.rate * np.sign(counts.mean() - counts)


def tokens_per_expert(router: Component) -> np.ndarray:
    """Returns how many tokens have chosen each expert in the latest forward of a router: integers (E,).

    Raises: ValueError before the first forward.
    """
    if router.chosen is None:
        raise ValueError(f"{called()}{type(router).__name__} has chosen no experts yet; call it, or the model that contains "
                         "it, first")
    return np.bincount(router.chosen.ravel(), minlength=router.num_experts)


def balance_of(counts: np.ndarray) -> float:
    """Returns how equally the experts are used: the entropy of their shares, divided by log E.

    1 means equally, and 0 that one expert gets everything. The exponential of the entropy, E ** balance, can be read as the
    number of experts in use.

    Parameters: counts : (E,), such as those of tokens_per_expert, E at least 2
    Raises: ValueError if the counts are all 0, or fewer than 2.
    """
    counts = np.asarray(counts, np.float64)
    if counts.size < 2 or not counts.sum() > 0:
        raise ValueError(f"{called()}counts = {counts.tolist()}: at least 2 experts are needed, and one of them with tokens")
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum() / math.log(counts.size))
