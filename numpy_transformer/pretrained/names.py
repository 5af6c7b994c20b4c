"""Tables of names: what transformers calls each module of a model, and what we call it.

Each line of a table has two names, that of transformers and ours:

    transformer.h.*.ln_1            decoder.blocks.*.norm1
    transformer.h.*.attn.c_attn     decoder.blocks.*.attention.query+key+value      as it is

`*` is the number of a block; a second `*` is the number of an expert. `query+key+value` are three modules of ours whose
weights lie side by side in one array of the checkpoint. "." is our model itself. A `weight` of the checkpoint is our `weight`
or `gamma`, a `bias` our `bias` or `beta`. If our name is that of a parameter, then the other one is that of an array.

A Linear of torch stores its weight as (d_out, d_in) and ours as (d_in, d_out), so weights of Linears are transposed. A line
can end with how its arrays differ from that:

    as it is        a weight of a Linear is stored as ours is
    in N groups     parts that lie side by side take turns: each of N groups has an Nth of every part. GPT-NeoX stores query,
                    key and value of each head together, gpt-oss one column of the gate and one of the layer beside it
    of shape 8,3,2  the array has this shape, with the same numbers in the same order

    ... mlp.experts.gate_up_proj    ... feed_forward.experts.*.gate+up.weight       as it is, in 2880 groups

If our name has the `*` of an expert and the other one has not, the arrays of all experts are stacked in one.

A table gives a list of Rules for a model, and everything else follows from these: loading splits and transposes arrays,
saving transposes and joins them, and gradients are compared in the layout of the checkpoint.
"""

import itertools
import re
from typing import NamedTuple

import numpy as np

from ..layers import Linear, LoRALinear

KINDS = {".weight": (".weight", ".gamma"), ".bias": (".bias", ".beta"), "": ("",)}      # their ending: ours


class NameRule(NamedTuple):
    """One array of a checkpoint, and the parameters of our model that it holds.

    Fields:
        theirs : name of the array
        ours : names of the parameters, which lie side by side along their last axis; those of one expert after the other
        shapes : the shapes of the parameters, of one expert if there are several
        transposed : True if the array is the transpose of our parameters
        groups : number of groups in which the parameters take turns
        experts : number of experts that are stacked along a first axis, or None
        stored : shape of the array, or None if it follows from those of the parameters
    """
    theirs: str
    ours: tuple
    shapes: tuple
    transposed: bool = False
    groups: int = 1
    experts: int | None = None
    stored: tuple | None = None

    @property
    def shape(self):
        """The shape of the checkpoint's array."""
        return self.plain_shape if self.stored is None else self.stored

    @property
    def plain_shape(self):
        """The shape of the array that the parameters give side by side, transposed and stacked."""
        shape = (*self.shapes[0][:-1], sum(shape[-1] for shape in self.shapes))
        shape = shape[::-1] if self.transposed else shape
        return shape if self.experts is None else (self.experts, *shape)

    def split(self, array):
        """Returns {our name: array} from the checkpoint's array; the arrays are views of it, unless they take turns."""
        array = array.reshape(self.plain_shape)
        stack = [array] if self.experts is None else array
        return dict(zip(self.ours, [part for each in stack for part in self.apart(each.T if self.transposed else each)]))

    def join(self, state):
        """Returns the checkpoint's array from {our name: array}; a view if it holds a single parameter."""
        parts = [state[name] for name in self.ours]
        stack = [self.side_by_side(parts[start:start + len(self.shapes)]) for start in range(0, len(parts), len(self.shapes))]
        stack = [each.T if self.transposed else each for each in stack]
        return (stack[0] if self.experts is None else np.stack(stack)).reshape(self.shape)

    def apart(self, array):
        """Returns the parts of an array, in which they lie side by side along the last axis."""
        ends = list(itertools.accumulate(shape[-1] // self.groups for shape in self.shapes))
        if self.groups == 1:
            return np.split(array, ends[:-1], axis=-1)
        turns = array.reshape(*array.shape[:-1], self.groups, -1)
        return [part.reshape(shape) for part, shape in zip(np.split(turns, ends[:-1], axis=-1), self.shapes)]

    def side_by_side(self, parts):
        """Returns the parts in one array; the inverse of `apart`."""
        if len(parts) == 1:
            return parts[0]
        turns = [part.reshape(*part.shape[:-1], self.groups, -1) for part in parts]
        array = np.concatenate(turns, axis=-1)
        return array.reshape(*array.shape[:-2], -1)


def make_rules(table, model):
    """Returns the Rules that a table gives for a model. Lines about parts that the model lacks give none."""
    own = dict(model.named_parameters())
    linear = {id(module.weight) for _, module in model.named_modules() if isinstance(module, (Linear, LoRALinear))}
    rules = []
    for line in table.splitlines():
        if line.strip():
            theirs, ours, *how = line.split(maxsplit=2)
            rules += rules_of_line(theirs, ours, "".join(how), own, linear=linear)
    return rules


def rules_of_line(theirs, ours, how, own, linear):
    """Yields the Rules of one line for our parameters {name: Parameter}; `linear` are the ids of weights of Linears."""
    groups = re.search(r"in (\d+) groups", how)
    stored = re.search(r"of shape ([\d,]+)", how)
    stacked = ours.count("*") > theirs.count("*")
    for numbers in numbers_of(ours, own):
        if stacked and numbers[-1] != "0":
            continue
        experts = [*numbers_of(filled(ours, numbers[:-1]), own)] if stacked else [()]
        names = [filled(ours, (*numbers[:-1], *each) if stacked else numbers) for each in experts]
        for ending, endings in KINDS.items():
            found = [find_parameters(name, endings, own) for name in names]
            if all(found):
                first = [own[name] for name in found[0]]
                yield NameRule(
                    filled(theirs, numbers) + ending, tuple(itertools.chain(*found)), tuple(p.data.shape for p in first),
                    transposed=id(first[0]) in linear and "as it is" not in how, groups=int(groups[1]) if groups else 1,
                    experts=len(experts) if stacked else None,
                    stored=tuple(map(int, stored[1].split(","))) if stored else None)


def filled(pattern, numbers):
    """Returns a pattern whose first `*` are replaced by numbers."""
    for number in numbers:
        pattern = pattern.replace("*", number, 1)
    return pattern


def numbers_of(pattern, own):
    """Returns the numbers of the blocks, or of the blocks and experts, that a name with `*` refers to, as tuples such as
    ("0",), ("1",), ... or ("0", "0"), ("0", "1"), ...; [()] for other names.
    """
    if "*" not in pattern:
        return [()]
    stack = pattern.split("*")[0]
    first = list(dict.fromkeys(name.removeprefix(stack).split(".")[0] for name in own if name.startswith(stack)))
    return [(number, *others) for number in first for others in numbers_of(filled(pattern, (number,)), own)]


def find_parameters(dotted_name, endings, own):
    """Returns the names of our parameters that a line refers to, such as those of query, key and value; or ()."""
    parts = [part.split("+") for part in dotted_name.strip(".").split(".")]
    for ending in endings:
        names = tuple(".".join(chosen) + ending for chosen in itertools.product(*parts))
        names = tuple(name.removeprefix(".") for name in names)
        if all(name in own for name in names):
            return names
    return ()
