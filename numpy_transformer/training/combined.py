"""Several optimizers as one, each with parameters of its own."""

from collections.abc import Sequence

import numpy as np

from ..module import Parameter
from .optimizers import Optimizer


class CombinedOptimizer(Optimizer):
    """One optimizer that consists of several: schedules, Trainer and checkpoints use it like any other.

    Its `lr` is that of the first. If a schedule changes it, the rates of the others change by the same factor.

    Parameters:
        optimizers : list of optimizers with different parameters; the first has a learning rate above 0
    Raises: ValueError if two of them hold the same parameter, or the first has the learning rate 0.
    """

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self.optimizers = list(optimizers)
        if not self.optimizers:
            raise ValueError("there are no optimizers to combine; give at least one")
        self.parameters = [parameter for optimizer in self.optimizers for parameter in optimizer.parameters]
        if len({id(parameter) for parameter in self.parameters}) < len(self.parameters):
            raise ValueError("two of the optimizers hold the same parameter, which would be updated twice; give each "
                             "parameter to one of them")
        first = self.optimizers[0].lr
        if not first > 0:
            raise ValueError(f"the first optimizer has lr = {first}, but the rates of the others are multiples of it; give "
                             "it a rate above 0")
        self.factors = [optimizer.lr / first for optimizer in self.optimizers]

    @property
    def lr(self) -> float:                      # type: ignore[override]
        return self.optimizers[0].lr

    @lr.setter
    def lr(self, lr: float) -> None:
        for optimizer, factor in zip(self.optimizers, self.factors):
            optimizer.lr = lr * factor

    @property
    def t(self) -> int:                         # type: ignore[override]
        return self.optimizers[0].t

    @t.setter
    def t(self, t: int) -> None:
        for optimizer in self.optimizers:
            optimizer.t = t

    def step(self) -> None:
        """Lets each of the optimizers take a step."""
        for optimizer in self.optimizers:
            optimizer.step()

    def state(self) -> dict[str, list[np.ndarray]]:
        """Returns {name: list of arrays}, each list with an array for each parameter of the optimizers that have this state."""
        names = dict.fromkeys(name for name, _, _ in self.state_by_parameter())
        return {name: [array for other, _, array in self.state_by_parameter() if other == name] for name in names}

    def state_by_parameter(self) -> list[tuple[str, Parameter, np.ndarray]]:
        return [part for optimizer in self.optimizers for part in optimizer.state_by_parameter()]
