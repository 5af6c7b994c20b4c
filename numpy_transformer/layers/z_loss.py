"""A loss that also keeps the normalizer of the softmax near 1."""

import numpy as np

from ..argument_checks import called, check_numbers
from ..module import Module
from ..types import Component


class ZLoss(Module):
    """The loss of a criterion + c times the mean of log² Z,   Z = sum_v exp(z_v), over the targets that it counts.

    Cross-entropy stays the same if a number is added to all logits of a row. log² Z does not: it is least where log Z = 0, so that
    the logits are the logarithms of the probabilities.

    Parameters: criterion : CrossEntropyLoss, or another loss of logits and targets with `count` and, if it ignores targets, `ignore_id`
        coefficient : float (1e-4), the c
    Shape: logits z (..., V), targets (...) integers -> a scalar; `count` and `ignore_id` are those of the criterion
    Backward: dz = criterion backward of dy + dy 2 c log(Z) softmax(z) / count, exactly 0 in the rows of ignored targets; dy is 1.0
        unless given
    Raises: ValueError if the coefficient is negative; as the criterion.
    Source: Chowdhery et al. 2022 (PaLM), section 5; earlier, for fast decoding: Devlin et al. 2014 (self-normalized models).
    """

    def __init__(self, criterion: Component, coefficient: float = 1e-4) -> None:
        check_numbers(coefficient=coefficient)
        if not coefficient >= 0:
            raise ValueError(f"{called()}coefficient = {coefficient} must not be negative: log Z would be driven away from 0; PaLM "
                             "has 1e-4")
        self.criterion = criterion
        self.coefficient = coefficient

    def forward(self, logits: np.ndarray, targets: np.ndarray) -> float:
        loss = self.criterion(logits, targets)
        counted = np.ones(logits.shape[:-1], bool) if self.ignore_id is None else np.asarray(targets) != self.ignore_id
        top = logits.real.max(-1, keepdims=True)            # so that exp cannot overflow
        p = np.exp(logits - top)
        total = p.sum(-1, keepdims=True)
        log_z = np.where(counted[..., None], top + np.log(total), 0)
        self.remember(p / total, log_z, self.count)
        return loss + self.coefficient * (log_z * log_z).sum() / self.count

    def backward(self, dy: float = 1.0) -> np.ndarray:
        p, log_z, count = self.recall()
        dlog_z = 2 * self.coefficient * float(dy) / count * log_z
        return self.criterion.backward(dy) + dlog_z * p

    @property
    def count(self) -> int:
        """The number of targets that the mean is over."""
        return self.criterion.count

    @count.setter
    def count(self, number: int) -> None:
        self.criterion.count = number

    @property
    def ignore_id(self) -> int | None:
        """The id of targets that are not counted, or None."""
        return getattr(self.criterion, "ignore_id", None)

    def extra_repr(self) -> str:
        return f"coefficient={self.coefficient:g}"
