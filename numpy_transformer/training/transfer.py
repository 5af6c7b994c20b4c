"""The weights of one model as the beginning of another."""

from dataclasses import dataclass


@dataclass
class Carried:
    """Names of parameters: `carried` over, `new` in the model (as it drew them), `left_out` of what was there."""

    carried: list
    new: list
    left_out: list


def carry_over(model, state):
    """Copy each array of a state_dict into the model's parameter of the same name and shape; what became of all names.

    Raises ValueError if none fits: then the two models have nothing in common.
    """
    own = dict(model.named_parameters())
    carried = [name for name in own if name in state and state[name].shape == own[name].data.shape]
    if not carried:
        raise ValueError(f"none of the {len(state)} arrays has the name and shape of a parameter of "
                         f"{type(model).__name__}; carry over the weights of a model with the same sizes")
    for name in carried:
        own[name].data = state[name]
    return Carried(carried, [name for name in own if name not in carried],
                   [name for name in state if name not in carried])
