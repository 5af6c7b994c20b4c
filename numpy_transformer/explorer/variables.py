"""A page of the arrays that a program holds at one moment, without the step that computed them."""

import numpy as np

from ..module import is_frozen, is_module, is_parameter, named_parts
from .document import encode_arrays
from .sources import describe_class
from .wording import sentence

LARGEST = 100_000                               # entries of an array


def variables_document(namespace, title=None):
    """Returns a document (FORMAT.md) of the arrays among some variables, each beside its gradient.

    The gradient of an array `x` is the variable `dx` if it has the same shape. Parameters of modules have their own.

    Parameters:
        namespace : dict of variables; names that begin with an underscore and everything but arrays and modules are skipped
        title : str; None: "Variables"
    Raises: ValueError if there is no array among them.
    """
    shown = {name: value for name, value in namespace.items() if not name.startswith("_")}
    arrays = {name: value for name, value in shown.items() if is_shown(value)}
    values = []
    ops = []
    refs = {}

    def add(op, role, slot, name, array, gradient=None):
        refs[name] = array
        if gradient is not None:
            refs[f"grad {name}"] = gradient
        axes = [{"name": f"axis {n}"} for n in range(array.ndim)]
        values.append({"id": name, "title": name, "kind": "variable", "shape": list(array.shape), "axes": axes,
                       "producer": None, "consumers": [], "has_gradient": gradient is not None, "nudge": False})
        op[role][slot] = name

    if arrays:
        ops.append(describe_op("arrays", "arrays", ""))
    for name, array in arrays.items():
        gradient = arrays.get(f"d{name}")
        if same_shape(gradient, array):
            add(ops[-1], "outputs", name, name, array, gradient)
        elif not (name.startswith("d") and same_shape(arrays.get(name[1:]), array)):        # else it stands beside its array
            add(ops[-1], "outputs", name, name, array)
    modules = {name: value for name, value in shown.items() if is_module(value)}
    for name, module in modules.items():
        parameters = [(inner, part) for inner, part in named_parts(module) if is_parameter(part) and is_shown(part.data)]
        if parameters:
            ops.append(describe_op(f"module {name}", name, type(module).__name__))
        for inner, parameter in parameters:
            gradient = None if is_frozen(parameter) else parameter.grad
            add(ops[-1], "parameters", inner, f"{name}.{inner}", parameter.data, gradient)
    if not ops:
        raise ValueError(sentence("errors.variables.none"))
    return {"format": "numpy-transformer-step", "version": 1, "id": "variables", "title": title or sentence("step.model.variables"),
            "model": {"class": "", "parameters": 0}, "loss": None, "tokens": {}, "values": values, "ops": ops,
            "groups": [], "steps": [{"phase": "forward", "op": op["id"]} for op in ops],
            "classes": {type(module).__name__: describe_class(type(module)) for module in modules.values()},
            "formulas": {}, "arrays": encode_arrays(refs), "output": None, "loss_value": None,
            "attention": [], "predictions": None, "proof": None, "hands_on": None}


def describe_op(id, name, class_name):
    return {"id": id, "name": name, "label": name, "class": class_name, "kind": "variables", "parent": "",
            "inputs": {}, "parameters": {}, "outputs": {}, "numbers": {}, "formulas": {}, "lines": {}, "called_at": {}}


def is_shown(value):
    return isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and 0 < value.size <= LARGEST


def same_shape(array, other):
    return array is not None and other is not None and array.shape == other.shape
