"""Tables of names: what transformers calls each module of a model, and what we call it.

Each line of a table has two names, that of transformers and ours:

    transformer.h.*.ln_1            decoder.blocks.*.norm1
    transformer.h.*.attn.c_attn     decoder.blocks.*.attention.query+key+value      as it is

`*` is the number of a block. `query+key+value` are three modules of ours whose weights lie side by side in one array of
the checkpoint. "." is our model itself. A `weight` of the checkpoint is our `weight` or `gamma`, a `bias` our `bias` or
`beta`.

A Linear of torch stores its weight as (d_out, d_in) and ours as (d_in, d_out), so weights of Linears are transposed. A
line that ends with "as it is" names a layer that stores its weight as ours does.

A table gives a list of Rules for a model, and everything else follows from these: loading splits and transposes arrays,
saving transposes and joins them, and gradients are compared in the layout of the checkpoint.
"""

from typing import NamedTuple

import numpy as np

from ..layers import Linear, LoRALinear

KINDS = {"weight": ("weight", "gamma"), "bias": ("bias", "beta")}


class NameRule(NamedTuple):
    """One array of a checkpoint, and the parameters of our model that it holds.

    Fields:
        theirs : name of the array
        ours : names of the parameters, which lie side by side along their last axis
        transposed : True if the array is the transpose of our parameters
    """
    theirs: str
    ours: tuple
    transposed: bool = False

    def split(self, array):
        """Returns {our name: array} from the checkpoint's array; the arrays are views of it."""
        array = array.T if self.transposed else array
        return dict(zip(self.ours, np.split(array, len(self.ours), axis=-1)))

    def join(self, state):
        """Returns the checkpoint's array from {our name: array}; a view if it holds a single parameter."""
        parts = [state[name] for name in self.ours]
        array = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        return array.T if self.transposed else array

    def shape(self, own):
        """Returns the shape of the checkpoint's array, from {our name: Parameter}."""
        *rows, columns = own[self.ours[0]].data.shape
        shape = (*rows, columns * len(self.ours))
        return shape[::-1] if self.transposed else shape


def make_rules(table, model):
    """Returns the Rules that a table gives for a model. Lines about parts that the model lacks give none."""
    own = dict(model.named_parameters())
    linear = {id(module.weight) for _, module in model.named_modules() if isinstance(module, (Linear, LoRALinear))}
    rules = []
    for theirs, ours, *how in (line.split() for line in table.splitlines() if line.strip()):
        for number in block_numbers(ours, own):
            for kind, endings in KINDS.items():
                names = find_parameters(ours.replace("*", number), endings, own)
                if names:
                    transposed = id(own[names[0]]) in linear and kind == "weight" and not how
                    rules.append(NameRule(f"{theirs.replace('*', number)}.{kind}", names, transposed))
    return rules


def block_numbers(pattern, own):
    """Returns "0", "1", ... for the blocks of the stack that a name with `*` refers to, and [""] for other names."""
    if "*" not in pattern:
        return [""]
    stack = pattern.split("*")[0]
    return list(dict.fromkeys(name.removeprefix(stack).split(".")[0] for name in own if name.startswith(stack)))


def find_parameters(dotted_name, endings, own):
    """Returns the names of our parameters that a line refers to, such as those of query, key and value; or ()."""
    stem, _, last = dotted_name.rpartition(".")
    for ending in endings:
        names = tuple(".".join(filter(None, (stem, part, ending))) for part in last.split("+"))
        if all(name in own for name in names):
            return names
    return ()
