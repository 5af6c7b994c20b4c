"""Weights stored as integers of 8 or 4 bits with one scale for each group, and linear layers that compute with them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..argument_checks import check_last_dim
from ..module import Module, Parameter, ThisModule
from ..types import DTypeLike
from .fast import rows, sum_over_rows
from .frozen import replace
from .linear import Linear
from .lora import LoRALinear
from .straight_through import chosen_linears

BITS = (8, 4)


def quantize_groups(weight: np.ndarray, bits: int, group: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rounds a matrix to integers from -n to n with n = 2^(bits-1) - 1, where a group's largest absolute value becomes n.

    Parameters:
        weight : array (d_in, d_out)
        bits : int, 2 to 8
        group : number of neighboring input features that share a scale in each column, which divides d_in; None: all
    Returns: codes (d_in, d_out), int8, and largest (d_in / group, d_out), the largest absolute value of each group
    Raises: ValueError if group does not divide d_in, if bits is out of range, or for weights that are not finite.
    Source: symmetric "absmax" quantization; Dettmers et al. 2022, section 2.1; in blocks: Dettmers et al. 2023, section 2.
    """
    check_bits_and_group(weight, bits, group)
    n = 2 ** (bits - 1) - 1
    groups = weight.reshape(-1, group or len(weight), weight.shape[1])          # (d_in / g, g, d_out)
    largest = abs(groups).max(1, keepdims=True)
    if not np.isfinite(largest).all():
        raise ValueError("the weight contains infinity or NaN, for which there is no scale; repair the model first")
    codes = np.rint(groups / (largest + (largest == 0)) * n)                    # a group of zeros keeps the code 0
    return codes.astype(np.int8).reshape(weight.shape), largest[:, 0]


def dequantize_groups(codes: np.ndarray, largest: np.ndarray, bits: int) -> np.ndarray:
    """Returns codes / n times the largest absolute value of their group, (d_in, d_out), in the dtype of `largest`."""
    n = 2 ** (bits - 1) - 1
    groups = codes.reshape(len(largest), -1, codes.shape[1])
    return (groups.astype(largest.dtype) / n * largest[:, None]).reshape(codes.shape)


def pack_int4(codes: np.ndarray) -> np.ndarray:
    """Returns integers from -8 to 7 as bytes (N,), two in each: the first one in the low four bits."""
    halves = (codes.reshape(-1) + 8).astype(np.uint8)
    halves = np.pad(halves, (0, len(halves) % 2))
    return halves[0::2] | halves[1::2] << 4


def unpack_int4(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the integers of pack_int4 as an int8 array of this shape."""
    halves = np.stack([packed & 15, packed >> 4], -1).reshape(-1)[:np.prod(shape, dtype=int)]
    return (halves.astype(np.int8) - 8).reshape(shape)


class QuantizedParameter(Parameter):
    """A frozen weight (d_in, d_out) that is stored as integers, two to a byte for 4 bits, and as the scales of its groups.

    `.data` computes the floats anew each time; they are read-only. Assigning to `.data` rounds what is assigned. Numbers
    that were rounded before are not changed by that, so state_dict and load_state_dict keep every bit.

    Parameters: data : array (d_in, d_out); bits : 8 or 4; group : as in quantize_groups
    Attributes: `stored`, the integers, int8 or packed; `largest` (d_in / group, d_out), the scales; `nbytes` of both
    """

    def __init__(self, data: np.ndarray, bits: int, group: int | None = None) -> None:
        if bits not in BITS:
            raise ValueError(f"bits = {bits} cannot be stored; choose 8 (one byte) or 4 (two to a byte)")
        self.bits = bits
        self.group = group
        self.shape = data.shape
        self.filled, self.held, self._grad = True, False, None
        self.data = data

    @property
    def codes(self) -> np.ndarray:
        """The integers (d_in, d_out), int8."""
        return self.stored if self.bits == 8 else unpack_int4(self.stored, self.shape)

    @property
    def data(self) -> np.ndarray:
        """The rounded weight as floats, computed anew each time. Assigning to it rounds."""
        data = dequantize_groups(self.codes, self.largest, self.bits)
        data.flags.writeable = False                        # a change of this array would be lost
        return data

    @data.setter
    def data(self, value: np.ndarray | float) -> None:
        value = np.asarray(value)
        if value.shape != self.shape:
            raise ValueError(f"cannot assign an array of shape {value.shape} to a quantized parameter of shape {self.shape}; "
                             "quantize a weight of that shape instead")
        codes, largest = quantize_groups(value, self.bits, self.group)
        self.stored = codes if self.bits == 8 else pack_int4(codes)
        self.largest = largest.astype(getattr(self, "largest", largest).dtype)

    @property
    def grad(self) -> np.ndarray:
        """Zeros: the weight is frozen."""
        return np.zeros(self.shape, self.largest.dtype)

    @grad.setter
    def grad(self, value: np.ndarray | float) -> None:
        """Whatever is assigned is lost, as for every frozen parameter."""

    @property
    def frozen(self) -> bool:
        """True. Integers do not take small steps."""
        return True

    @frozen.setter
    def frozen(self, value: bool) -> None:
        if not value:
            raise ValueError("a quantized weight stays frozen; call dequantize(model) first to train it")

    @property
    def nbytes(self) -> int:
        """The bytes of the integers and of the scales."""
        return self.stored.nbytes + self.largest.nbytes

    def astype(self, dtype: DTypeLike) -> None:
        """Converts the scales, and so what `.data` returns."""
        self.largest = self.largest.astype(dtype)

    def take(self, array: np.ndarray) -> None:
        self.data = array

    def __deepcopy__(self, memo: dict[int, Any]) -> "QuantizedParameter":
        copy = type(self).__new__(type(self))
        vars(copy).update(vars(self), stored=self.stored.copy(), largest=self.largest.copy())
        return copy

    def __repr__(self) -> str:
        return f"QuantizedParameter(shape={self.shape}, bits={self.bits}, group={self.group}, dtype={self.largest.dtype})"


class QuantizedLinear(Linear):
    """y = x Ŵ + b on the last axis, where Ŵ is a weight rounded to integers of 8 or 4 bits, with a scale for each group.

    Ŵ is computed from the integers in each forward and backward, and dropped again. It is frozen. LoRALinear around this
    layer is QLoRA, with evenly spaced 4-bit integers in place of the NormalFloat of that paper (see add_lora).

    Parameters: linear : Linear; bits : 8 or 4; group : int or None (a scale for each column), as in quantize_groups
    Shape: x (..., d_in) -> y (..., d_out); `weight`, a QuantizedParameter (d_in, d_out); `bias`, that of the Linear
    Backward: dx = dy Ŵᵀ, exactly;   db = sum over rows of dy, unless b is frozen
    Raises: ValueError for other bits, or if group does not divide d_in.
    Source: Dettmers et al. 2022, section 2.1 (absmax); Dettmers et al. 2023 (QLoRA), sections 2 and 3.
    """

    keeps_weight_frozen = "dequantize(model)"
    weight: QuantizedParameter

    def __init__(self, linear: Linear, bits: int = 8, group: int | None = 32) -> None:
        self.d_in = linear.d_in
        self.d_out = linear.d_out
        self.weight = QuantizedParameter(linear.weight.data, bits, group)
        self.bias = linear.bias
        self.training = linear.training
        self.remembering = linear.remembering

    def forward(self, x: np.ndarray) -> np.ndarray:
        check_last_dim(self, x, "d_in", self.d_in)
        self.remember(x.shape)
        y = rows(x) @ self.dequantized()
        if self.bias is not None:
            y += self.bias.data
        return y.reshape(*x.shape[:-1], self.d_out)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        shape = self.recall()
        dy = rows(dy)
        if self.bias is not None and not self.bias.frozen:
            self.bias.grad += sum_over_rows(dy)
        return (dy @ self.dequantized().T).reshape(shape)

    def dequantized(self) -> np.ndarray:
        """Returns Ŵ (d_in, d_out)."""
        return self.weight.data

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, bits={self.weight.bits}, group={self.weight.group}"


def quantize(model: ThisModule, bits: int = 8, group: int | None = 32,
             targets: str | Sequence[str] | None = None) -> ThisModule:
    """Turns Linears of a model into QuantizedLinears, whose weights are stored as integers and stay frozen.

    Everything else stays as it is: biases, norms, embeddings, and an output layer tied to the embedding. For QLoRA, call
    add_lora(model) afterwards.

    Parameters:
        model : Module
        bits : 8 or 4
        group : number of input features that share a scale in each column, or None for one scale per column
        targets : names of Linears as in add_lora, or None for all
    Returns: model, or its quantized form if it is itself a Linear
    Raises: ValueError for a name that the model does not have, other bits, a group that does not divide the input
        features of a Linear, or if the model has LoRALinears; then nothing is changed.
    """
    if any(isinstance(module, LoRALinear) for _, module in model.named_modules()):
        raise ValueError(f"{type(model).__name__} has LoRA updates already; quantize the model before add_lora, or call "
                         "merge_lora(model) first")
    linears = chosen_linears(model.forget(), targets)
    return replace(model, {id(linear): QuantizedLinear(linear, bits, group) for linear in linears})


def dequantize(model: Module) -> Any:
    """Turns the quantized weights of a model into float weights with the same, rounded values; returns the model.

    QuantizedLinears become Linears that can be trained. The weight of a LoRALinear stays frozen, and merge_lora is
    possible.

    Raises: ValueError if no weight is quantized.
    """
    holders = [module for _, module in model.forget().named_modules() if has_quantized_weight(module)]
    if not holders:
        raise ValueError(f"{type(model).__name__} has no quantized weight; see quantize")
    linears = {}
    for module in holders:
        weight = Parameter(module.weight.data)
        if isinstance(module, QuantizedLinear):
            linears[id(module)] = Linear.__new__(Linear)
            vars(linears[id(module)]).update(vars(module), weight=weight)
        else:
            weight.frozen = True
            module.weight = weight
    return replace(model, linears)


def has_quantized_weight(module: Any) -> bool:
    """Whether a component has a weight that is stored as integers."""
    return isinstance(getattr(module, "weight", None), QuantizedParameter)


def stored_bytes(model: Module) -> int:
    """Returns the bytes of a model's parameters as they are stored, without gradients: integers and scales if quantized."""
    return sum(p.nbytes if isinstance(p, QuantizedParameter) else p.data.nbytes for p in model.parameters())


def check_bits_and_group(weight: np.ndarray, bits: int, group: int | None) -> None:
    """Raises ValueError if a weight cannot be rounded to these bits in these groups."""
    if not 2 <= bits <= 8:
        raise ValueError(f"bits = {bits} must be from 2 to 8")
    if group is not None and (group < 1 or len(weight) % group):
        raise ValueError(f"group = {group} does not divide the {len(weight)} input features; choose a divisor, or None for "
                         "one scale per column")
