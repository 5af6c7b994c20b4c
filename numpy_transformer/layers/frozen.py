"""Frozen parameters: layers that neither compute nor store the gradient of their weight, and freeze and unfreeze."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..module import Module, Parameter, ThisModule, is_parameter, named_parts
from .embedding import Embedding, Unembedding
from .fast import rows, sum_over_rows
from .linear import Linear


class FrozenLinear(Linear):
    """y = x W + b with a frozen W: a Linear that does not compute dW, and so does not save x.

    Backward: db = sum over rows of dy, unless b is frozen too,   dx = dy Wᵀ
    """

    def remember(self, x: np.ndarray) -> None:
        super().remember(x.shape)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        dy_rows = rows(dy)
        if self.bias is not None and not self.bias.frozen:
            self.bias.grad += sum_over_rows(dy_rows)
        return (dy_rows @ self.weight.data.T).reshape(self.recall())


class FrozenEmbedding(Embedding):
    """y = E[ids] with a frozen E: an Embedding whose backward has nothing to compute, as ids have no gradient.

    Backward: dy -> None
    """

    def backward(self, dy: np.ndarray) -> None:
        self.recall()


class FrozenUnembedding(Unembedding):
    """y = c x Eᵀ with a frozen E: an Unembedding that does not compute dE, and so does not save x.

    Backward: dx = c dy E
    """

    def remember(self, x: np.ndarray) -> None:
        super().remember(x.shape)

    def backward(self, dy: np.ndarray) -> np.ndarray:
        dx = (rows(dy) @ self.weight.data).reshape(self.recall())
        return dx if self.factor == 1 else dx * self.factor


FROZEN: dict[type, type[Module]] = {Linear: FrozenLinear, Embedding: FrozenEmbedding, Unembedding: FrozenUnembedding}
THAWED: dict[type, type[Module]] = {frozen: plain for plain, frozen in FROZEN.items()}


def freeze(model: ThisModule, *names: str) -> ThisModule:
    """Freezes parameters: backward no longer computes their gradient, and training leaves them as they are.

    Optimizers, clip_grad_norm, Trainer, its checkpoints and gradcheck see only the parameters that are not frozen. Make
    the optimizer afterwards.

    Parameters:
        model : Module
        names : of modules, lists of modules or parameters, such as "embedding", "encoder.blocks.0", "decoder.blocks" or
            "output.bias"; none: the whole model. A tied weight is one parameter, so it is frozen in both places
    Returns: model, in which the layers whose weight is frozen are new ones with the same parameters; a layer that is given
        by itself stays as it is, and its frozen form is returned
    Raises: ValueError for a name that the model does not have; then nothing is frozen.
    """
    return set_frozen(model, names, True)


def unfreeze(model: ThisModule, *names: str) -> ThisModule:
    """Undoes freeze for the parameters with these names, or for all; returns the model.

    Raises: ValueError for a name that the model does not have, or for the weight of a LoRALinear.
    """
    return set_frozen(model, names, False)


def set_frozen(model: ThisModule, names: Sequence[str], frozen: bool) -> ThisModule:
    """Freezes or unfreezes the parameters with these names, or all; returns the model."""
    parameters = [parameter for name in names or [""] for parameter in parameters_below(model, name)]
    if not frozen:
        check_can_be_trained(model, parameters)
    for parameter in parameters:
        parameter.frozen = frozen
    new = {id(module): other_form(module) for _, module in model.forget().named_modules()}
    return replace(model, {key: module for key, module in new.items() if module is not None})


def other_form(module: Module) -> Module | None:
    """Returns a layer with the same parameters that does, or does not, compute the gradient of its weight; or None.

    None means that the module is as it should be: frozen if its weight is, and otherwise plain.
    """
    forms = FROZEN if getattr(getattr(module, "weight", None), "frozen", False) else THAWED
    if type(module) not in forms:
        return None
    other = forms[type(module)].__new__(forms[type(module)])
    vars(other).update(vars(module))
    return other


def replace(model: Module, new: Mapping[int, Module]) -> Any:
    """Puts modules in the place of others, wherever these are attributes or in lists; `new` is {id: module}.

    Returns: model, or what takes its place
    """
    def replaced(value):
        if isinstance(value, list):
            value[:] = map(replaced, value)
            return value
        return tuple(map(replaced, value)) if type(value) is tuple else new.get(id(value), value)

    for _, module in model.named_modules():
        for key, value in vars(module).items():
            if not key.startswith("_"):
                vars(module)[key] = replaced(value)
    return replaced(model)


def check_can_be_trained(model: Module, parameters: list[Parameter]) -> None:
    """Raises ValueError if a layer that does not compute the gradient of its weight cannot become one that does."""
    chosen = set(map(id, parameters))
    for name, module in model.named_modules():
        remedy = getattr(module, "keeps_weight_frozen", "")
        if remedy and id(module.weight) in chosen:
            raise ValueError(f"{name or 'the model'} is a {type(module).__name__}, whose weight stays frozen; call "
                             f"{remedy} first to train it")


def parameters_below(model: Module, name: str) -> list[Parameter]:
    """Returns the parameters of the part with a dotted name, each once; "" is the model itself.

    Raises: ValueError if there is no such part, or if it has no parameters.
    """
    part: Any = model
    path: list[str] = []
    for key in filter(None, name.split(".")):
        below = children(part)
        if key not in below:
            where = repr(".".join(path)) if path else type(model).__name__
            known = ", ".join(map(repr, below)) or "no parts"
            raise ValueError(f"there is no part {name!r}: {where} has {known}")
        part = below[key]
        path.append(key)
    parameters = [item for _, item in named_parts(part) if is_parameter(item)]
    if not parameters:
        raise ValueError(f"{name!r} has no parameters, so there is nothing to freeze or to train")
    return parameters


def children(part: Any) -> dict[str, Any]:
    """Returns {name: part} of the modules, lists of modules and parameters directly below a part."""
    if isinstance(part, (list, tuple)):
        return {str(index): item for index, item in enumerate(part)}
    return {key: value for key, value in vars(part).items() if not key.startswith("_") and named_parts(value)}
