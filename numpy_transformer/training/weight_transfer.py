"""Initializes a model with the weights of another one."""

from dataclasses import dataclass

import numpy as np

from ..module import Module


@dataclass
class Carried:
    """Names of arrays: `carried` were copied, `new` ones keep their initial weights, `left_out` ones were not used."""

    carried: list
    new: list
    left_out: list


def carry_over(model: Module, state: dict[str, np.ndarray], copy: bool = True) -> Carried:
    """Copies each array of a state_dict into the model's parameter of the same name and shape; returns a Carried.

    With copy=False the parameters take over the arrays themselves where they can, as in Module.load_state_dict.

    Raises ValueError if no array fits, because the two models have nothing in common then.
    """
    own = dict(model.named_parameters())
    carried = [name for name in own if name in state and state[name].shape == own[name].data.shape]
    if not carried:
        raise ValueError(f"none of the {len(state)} arrays has the name and shape of a parameter of "
                         f"{type(model).__name__}; carry over the weights of a model with the same sizes")
    for name in carried:
        if copy:
            own[name].data = state[name]
        else:
            own[name].take(state[name])
    return Carried(carried, [name for name in own if name not in carried],
                   [name for name in state if name not in carried])
