"""The two losses. Models return logits; the logarithm of their softmax is computed here."""

import numpy as np

from ..argument_checks import called, check_array, check_integers, check_numbers
from ..module import Module
from .fast import in_blocks_of_rows, rows, subtract_max, sum_over_features


class CrossEntropyLoss(Module):
    """The mean over the counted targets of -sum_v q_v log softmax(z)_v,   q = (1 - ε) onehot + ε / V.

    Parameters: label_smoothing : float (0.0), the ε in [0, 1)
        ignore_id : int or None; targets with this id are not counted and get no gradient
    Shape: logits z (..., V), targets (...) integers -> a scalar; `count` is the number of counted targets
    Backward: dz = dy (softmax(z) - q) / count, exactly 0 in the rows of ignored targets; dy is 1.0 unless given
    Raises: TypeError if targets are not integers; IndexError if one is not a class; ValueError if their shape is not
        that of the logits without the last axis, or if all of them are ignored.
    Source: label smoothing: Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4.
    """

    def __init__(self, label_smoothing: float = 0.0, ignore_id: int | None = None) -> None:
        check_numbers(label_smoothing=label_smoothing)
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"{called()}label_smoothing = {label_smoothing} must lie in [0, 1); the paper uses 0.1")
        self.label_smoothing = label_smoothing
        self.ignore_id = ignore_id

    def forward(self, logits: np.ndarray, targets: np.ndarray) -> float:
        targets, counted = self.check_targets(logits, targets)
        loss, p = in_blocks_of_rows(self.losses, rows(logits), targets)
        self.remember(p, targets, counted, logits.shape)
        return loss[counted].sum() / self.count

    def backward(self, dy: float = 1.0) -> np.ndarray:
        dz, targets, counted, shape = self.recall()         # dz begins as p, an array that no one else uses
        dy = float(dy) / int(np.count_nonzero(counted))
        dz *= dy                                            # subtract dy q, in two parts
        if self.label_smoothing:
            dz -= dy * self.label_smoothing / dz.shape[-1]
        dz[np.arange(len(dz)), targets] -= dy * (1 - self.label_smoothing)
        dz[~counted] = 0
        return dz.reshape(shape)

    def losses(self, logits: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the loss of each target (N,), and p = softmax(z) (N, V)."""
        z = subtract_max(logits)
        p = np.exp(z)
        total = sum_over_features(p)
        p /= total
        loss = np.log(total[:, 0]) - (1 - self.label_smoothing) * z[np.arange(len(z)), targets]
        if self.label_smoothing:
            loss -= self.label_smoothing * z.mean(-1)
        return loss, p

    def check_targets(self, logits: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the targets as N class ids, 0 where they are ignored, and N booleans: which of them count."""
        check_array(self, logits)
        targets = np.asarray(targets)
        if targets.shape != logits.shape[:-1]:
            raise ValueError(f"{called()}targets have shape {targets.shape}, logits {logits.shape}: wanted one target "
                             f"for each row of {logits.shape[-1]} logits, shape {logits.shape[:-1]}")
        counted = np.ones(targets.shape, bool) if self.ignore_id is None else targets != self.ignore_id
        self.count = int(np.count_nonzero(counted))
        if self.count == 0:
            raise ValueError(f"{called()}all {targets.size} targets are ignored (ignore_id = {self.ignore_id}): a mean "
                             "over none has no value; leave such batches out")
        if targets.dtype.kind in "iu":                      # check_integers refuses others
            targets = np.where(counted, targets, 0)
        targets = check_integers(targets, logits.shape[-1], "targets", "number of classes")
        return targets.ravel(), counted.ravel()


class BinaryCrossEntropyLoss(Module):
    """The mean of -t log σ(z) - (1 - t) log(1 - σ(z)) = log(1 + exp(z)) - t z.

    Shape: logits z (...), targets t (the same shape) in [0, 1] -> a scalar; `count` is the number of targets
    Backward: dz = dy (σ(z) - t) / count; dy is 1.0 unless given
    Raises: ValueError if the shapes differ or a target lies outside [0, 1].
    Source: Bishop 2006, equation 4.90.
    """

    def forward(self, logits: np.ndarray, targets: np.ndarray) -> float:
        check_array(self, logits)
        targets = np.asarray(targets, logits.real.dtype)
        if targets.shape != logits.shape or not targets.size:
            raise ValueError(f"{called()}targets have shape {targets.shape}, logits {logits.shape}: wanted the same shape, "
                             "with at least one entry; logits[..., 0] drops a last axis of 1")
        if not (targets.min() >= 0 and targets.max() <= 1):
            raise ValueError(f"{called()}targets must lie in 0 to 1, got {targets.min()} to {targets.max()}")
        self.count = targets.size
        self.remember(logits, targets)
        positive = logits.real > 0                          # log(1 + exp z) = max(z, 0) + log(1 + exp(-|z|))
        loss = np.where(positive, logits, 0) + np.log1p(np.exp(np.where(positive, -logits, logits)))
        return (loss - targets * logits).sum() / self.count

    def backward(self, dy: float = 1.0) -> np.ndarray:
        logits, targets = self.recall()
        sigma = (1 + np.tanh(logits / 2)) / 2               # σ(z), in a form that cannot overflow
        return (sigma - targets) * (float(dy) / targets.size)
