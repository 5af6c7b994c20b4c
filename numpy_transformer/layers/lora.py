"""LoRA, low-rank adaptation: frozen weights, some of which have a trained update, the product of two small matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..argument_checks import check_last_dim, check_positive
from ..module import Module, Parameter, ThisModule, unfilled
from ..types import Seed
from .fast import rows, sum_over_rows
from .frozen import freeze, parameters_below, replace, unfreeze
from .initial_weights import uniform
from .linear import Linear


class LoRALinear(Module):
    """y = x W + b + s (x A) B on the last axis, where W and b are frozen, and s = alpha / rank.

    A is uniform in ±1/sqrt(d_in) and B is zero at first, so that y is that of the Linear until B has been trained.

    Parameters:
        linear : Linear, whose `weight` and `bias` become those of this layer, under the same names, and are frozen
        rank : int, the number of columns of A and of rows of B
        alpha : float or None (rank, which gives s = 1)
        rng : generator or seed that draws A, or None
    Shape: x (..., d_in) -> y (..., d_out); `A` (d_in, rank), `B` (rank, d_out)
    Backward: dB = s (sum over rows of (x A)ᵀ dy),   dA = s (sum over rows of xᵀ (dy Bᵀ)),   dx = dy Wᵀ + s (dy Bᵀ) Aᵀ
    Raises: ValueError if rank or alpha is not positive, or rank is larger than d_in or d_out.
    Source: Hu et al. 2021, section 4.1, equation 3; A as in the published code (the paper draws it from a Gaussian).
    """

    keeps_weight_frozen = "merge_lora(model)"

    def __init__(self, linear: Linear, rank: int, alpha: float | None = None, rng: Seed = None) -> None:
        check_update(linear, rank, alpha)
        self.d_in = linear.d_in
        self.d_out = linear.d_out
        self.rank = rank
        self.scale = 1.0 if alpha is None else alpha / rank
        self.weight = linear.weight
        self.bias = linear.bias
        dtype = self.weight.data.dtype
        self.A = Parameter(uniform(rng, (self.d_in, rank), 1 / self.d_in ** 0.5).astype(dtype))
        self.B = Parameter(np.zeros((rank, self.d_out), dtype))
        self.training = linear.training
        self.remembering = linear.remembering
        self._weight_before_merge: np.ndarray | None = None
        freeze(linear)

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_last_dim(self, x, "d_in", self.d_in)
        y = rows(x) @ self.weight.data
        if self.bias is not None:
            y += self.bias.data
        if not self.is_merged:
            xA = rows(x) @ self.A.data
            y += (self.scale * xA) @ self.B.data
            self.remember(x, xA)
        return y.reshape(*x.shape[:-1], self.d_out)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        if self.is_merged:
            raise RuntimeError("a merged LoRALinear cannot be trained; call unmerge() first")
        x, xA = self.recall()
        dy = rows(dy)
        dxA = self.scale * (dy @ self.B.data.T)                     # (N, rank), as small as xA
        self.B.grad += (self.scale * xA).T @ dy
        self.A.grad += rows(x).T @ dxA
        if self.bias is not None and not self.bias.frozen:
            self.bias.grad += sum_over_rows(dy)
        return (dy @ self.weight.data.T + dxA @ self.A.data.T).reshape(x.shape)

    @property
    def is_merged(self) -> bool:
        """Whether W contains the update now."""
        return self._weight_before_merge is not None

    def merge(self) -> "LoRALinear":
        """Adds s A B to W, so that forward is as fast as that of a Linear; returns self. W is kept for unmerge."""
        if not self.is_merged:
            self._weight_before_merge = self.weight.data.copy()
            self.weight.data = self.weight.data + self.scale * (self.A.data @ self.B.data)
        return self

    def unmerge(self) -> "LoRALinear":
        """Restores W exactly as it was before merge; returns self."""
        if self._weight_before_merge is not None:
            self.weight.data = self._weight_before_merge
            self._weight_before_merge = None
        return self

    def to_linear(self) -> Linear:
        """Merges, and returns a Linear with the weight W + s A B and the bias b."""
        self.merge()
        with unfilled():
            linear = Linear(self.d_in, self.d_out, self.bias is not None)
        linear.weight = self.weight
        linear.bias = self.bias
        linear.training = self.training
        linear.remembering = self.remembering
        return linear

    def extra_repr(self) -> str:
        return f"d_in={self.d_in}, d_out={self.d_out}, bias={self.bias is not None}, rank={self.rank}, scale={self.scale:g}"


def check_update(linear: Linear, rank: int, alpha: float | None) -> None:
    """Raises ValueError if a Linear cannot have an update of this rank, multiplied by alpha / rank."""
    check_positive(rank=rank)
    if alpha is not None and not alpha > 0:
        raise ValueError(f"alpha = {alpha} must be above 0: s = alpha / rank multiplies the update; the rank, or twice "
                         "the rank, is usual")
    if rank > min(linear.d_in, linear.d_out):
        raise ValueError(f"rank = {rank} is larger than d_in = {linear.d_in} or d_out = {linear.d_out}, but no update "
                         "of W has a higher rank than these; 4 to 16 is usual")


def add_lora(model: ThisModule, rank: int = 8, targets: str | Sequence[str] = ("query", "value"), alpha: float | None = None,
             trained: Sequence[str] = (), rng: Seed = None) -> ThisModule:
    """Freezes a model except for new low-rank updates of some of its Linears, which become LoRALinears.

    The output stays the same at first. Make the optimizer afterwards. The parameters keep their names; those of a
    LoRALinear "attention.query" are called "attention.query.A" and "attention.query.B".

    Parameters:
        model : Module
        rank : int (8), alpha : float or None (rank), as in LoRALinear
        targets : names of Linears, whole or from the end: "query" means all those whose name is "query" or ends with
            ".query". targets=("query", "value") is what the paper uses for GPT-3
        trained : names of modules, lists of modules or parameters that are trained as a whole, such as a new head; a
            Linear in these has no update of its own
        rng : generator or seed that draws all A, or None
    Returns: model
    Raises: ValueError for a name that the model does not have, or if the model has LoRALinears already; then nothing is
        changed.
    Source: Hu et al. 2021, section 4; which weights: section 4.2 and section 7.1.
    """
    whole = {id(parameter) for name in trained for parameter in parameters_below(model, name)}
    for linear in linears_called(model, targets):
        if id(linear.weight) not in whole:
            check_update(linear, rank, alpha)
    rng = np.random.default_rng(rng)
    freeze(model)
    replace(model, {id(linear): LoRALinear(linear, rank, alpha, rng) for linear in linears_called(model, targets)
                    if id(linear.weight) not in whole})
    if trained:
        unfreeze(model, *trained)
    return model


def merge_lora(model: Module) -> Any:
    """Turns every LoRALinear into a Linear with the weight W + s A B; returns the model, in which nothing is frozen.

    Raises: ValueError if the model has no LoRALinear, or if weights are quantized, which would round W + s A B once more.
    """
    lora_layers = [module for _, module in model.named_modules() if isinstance(module, LoRALinear)]
    if not lora_layers:
        raise ValueError(f"{type(model).__name__} has no LoRALinear, so there is nothing to merge; see add_lora")
    check_not_quantized(model)
    replace(model, {id(module): module.to_linear() for module in lora_layers})
    return unfreeze(model)


def check_not_quantized(model: Module) -> None:
    """Raises ValueError if weights are stored as integers."""
    for name, module in model.named_modules():
        if getattr(getattr(module, "weight", None), "bits", None):
            raise ValueError(f"the weight of {name or 'the model'} is quantized, so W + s A B would be rounded once more; call "
                             "dequantize(model) before merge_lora")


def linears_called(model: Module, targets: str | Sequence[str], kinds: type | tuple[type, ...] = Linear) -> list[Any]:
    """Returns a list of the Linears, or modules of other kinds, whose dotted name is one of the targets, or ends with one."""
    linears = [(name, module) for name, module in model.named_modules() if isinstance(module, kinds) and name]
    if any(isinstance(module, LoRALinear) for _, module in model.named_modules()):
        raise ValueError(f"{type(model).__name__} has LoRA updates already; call merge_lora(model) before adding "
                         "others")
    if isinstance(targets, str):
        targets = (targets,)
    for target in targets:
        if not any(is_called(name, target) for name, _ in linears):
            known = ", ".join(sorted({repr(short_name(name)) for name, _ in linears})) or "none"
            raise ValueError(f"{type(model).__name__} has no Linear called {target!r}; choose among {known}")
    return [linear for name, linear in linears if any(is_called(name, target) for target in targets)]


def short_name(name: str) -> str:
    """Returns the end of the dotted name of a Linear that says what it is, such as "query" or "query.parts.0"."""
    parts = name.removesuffix(".linear").split(".")
    words = [index for index, part in enumerate(parts) if not part.isdigit() and part != "parts"]
    return ".".join(parts[words[-1] if words else 0:])


def is_called(name: str, target: str) -> bool:
    """Whether a dotted name is the target or ends with it; the Linear in a NormedLinear is also called as that is."""
    return any(f".{each}".endswith(f".{target}") for each in (name, name.removesuffix(".linear")))
