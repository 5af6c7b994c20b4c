"""What a model consists of, part by part: whether it is still the one that its arguments or its config.json describe."""

from typing import Any

import numpy as np

from ..layers import Dropout, Linear, LoRALinear, QuantizedLinear
from ..layers.frozen import THAWED
from ..module import Module
from ..tree import is_module, is_parameter, items_of

CHANGES_IN_USE = {"training", "remembering", "length"}          # `length` is that of rotary tables, which grow
OF_LORA = {"A", "B", "rank", "scale"}


def first_difference(model: Module, described: Module, as_saved: bool = False) -> str | None:
    """Returns a clause that names the first part in which a model differs from the one that is described, or None.

    Classes, shapes, shared parts, settings such as the width of a window, and tables such as rotary frequencies are compared;
    weights, what is frozen and the rates of dropout are not. With as_saved=True, a LoRALinear or a QuantizedLinear is the same as the
    Linear with its weights.
    """
    found, wanted = structure(model, as_saved), structure(described, as_saved)
    for name in dict.fromkeys([*wanted, *found]):
        one, other = found.get(name), wanted.get(name)
        if not is_same(one, other):
            if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
                return f"{name} has other values"
            return f"{name} is {one} instead of {other}"
    return None


def structure(model: Module, as_saved: bool) -> dict[str, Any]:
    """Returns {dotted name: class of a part, shape of a parameter, or value of a setting}, part by part; of a parameter that
    has appeared before, its first name.
    """
    entries: dict[str, Any] = {}
    first_names: dict[int, str] = {}

    def walk(prefix: str, module: Any, above: tuple[Any, ...]) -> None:
        becomes_linear = as_saved and isinstance(module, (LoRALinear, QuantizedLinear))
        hidden = CHANGES_IN_USE | (OF_LORA if becomes_linear else set()) | ({"p"} if isinstance(module, Dropout) else set())
        plain = Linear if becomes_linear else THAWED.get(type(module), type(module))    # a frozen layer computes the same
        entries[prefix] = plain.__name__
        for key, value in vars(module).items():
            if key not in hidden and not key.startswith("_") and isinstance(value, (int, float, str, np.ndarray)):
                entries[f"{prefix}.{key}"] = value
        for key, item in items_of(module):
            name = f"{prefix}.{key}"
            if is_module(item) and not any(item is other for other in above):
                walk(name, item, (*above, item))
            elif is_parameter(item) and key not in hidden:
                is_new = first_names.setdefault(id(item), name) == name
                entries[name] = f"an array of shape {np.shape(item.data)}" if is_new else f"the same as {first_names[id(item)]}"

    walk("model", model, (model,))
    return entries


def is_same(one: Any, other: Any) -> bool:
    """Returns True for equal entries. Arrays that the latest forward has left, and tables that have grown, have no equal."""
    arrays = [entry for entry in (one, other) if isinstance(entry, np.ndarray)]
    if len(arrays) == 2 and one.shape == other.shape:
        return np.allclose(one, other, rtol=1e-5, atol=1e-6)
    return bool(arrays) or one == other
