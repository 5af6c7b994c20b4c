"""Tables of names: what transformers calls each module of a model, and what we call it.

A table is text with two words on a line, a name of theirs and a name of ours:

    transformer.h.*.ln_1            decoder.blocks.*.norm1
    transformer.h.*.attn.c_attn     decoder.blocks.*.attention.query+key+value      as it is

`*` is the number of a block. `query+key+value` are modules of ours whose weights lie side by side in one array of
theirs. "." is our model itself. A module's `weight` is our `weight` or `gamma`, its `bias` our `bias` or `beta`.

Their Linear keeps its weight as (d_out, d_in), ours as (d_in, d_out), so weights of Linears are transposed. A line that
ends with "as it is" names a layer that keeps its weight as we do.

Everything else follows from the rules that such a table gives for a model: loading splits and transposes arrays, saving
transposes and joins them, and gradients can be compared under their names.
"""

from typing import NamedTuple

import numpy as np

from ..layers import Linear, LoRALinear

KINDS = {"weight": ("weight", "gamma"), "bias": ("bias", "beta")}


class Rule(NamedTuple):
    """One array of theirs, and the parameters of ours that it holds.

    Fields: theirs : its name; ours : names of one or several parameters, side by side along their last axis;
        transposed : whether their array is the transposed one
    """
    theirs: str
    ours: tuple
    transposed: bool = False

    def split(self, array):
        """Returns {our name: array} from their array; views where that is possible."""
        array = array.T if self.transposed else array
        return dict(zip(self.ours, np.split(array, len(self.ours), axis=-1)))

    def join(self, state):
        """Returns their array from {our name: array}; a view if it holds one parameter alone."""
        parts = [state[name] for name in self.ours]
        array = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        return array.T if self.transposed else array

    def shape(self, own):
        """Returns the shape of their array, from {our name: Parameter}."""
        *rows, columns = own[self.ours[0]].data.shape
        shape = (*rows, columns * len(self.ours))
        return shape[::-1] if self.transposed else shape


def make_rules(table, model):
    """Returns the list of Rules by which a table describes the model. Lines about parts that it lacks give none."""
    own = dict(model.named_parameters())
    linear = {id(module.weight) for _, module in model.named_modules() if isinstance(module, (Linear, LoRALinear))}
    rules = []
    for theirs, ours, *how in (line.split() for line in table.splitlines() if line.strip()):
        for number in block_numbers(ours, own):
            for kind, endings in KINDS.items():
                names = find_parameters(ours.replace("*", number), endings, own)
                if names:
                    transposed = id(own[names[0]]) in linear and kind == "weight" and not how
                    rules.append(Rule(f"{theirs.replace('*', number)}.{kind}", names, transposed))
    return rules


def block_numbers(ours, own):
    """Returns "0", "1", ... for the blocks of the stack that a name with `*` speaks of; [""] for another name."""
    if "*" not in ours:
        return [""]
    stack = ours.split("*")[0]
    numbers = {name.removeprefix(stack).split(".")[0] for name in own if name.startswith(stack)}
    return sorted(numbers, key=int)


def find_parameters(ours, endings, own):
    """Returns the names of our parameters that one line means, such as those of query, key and value; or ()."""
    stem, _, last = ours.rpartition(".")
    for ending in endings:
        names = tuple(".".join(filter(None, (stem, part, ending))) for part in last.split("+"))
        if all(name in own for name in names):
            return names
    return ()
