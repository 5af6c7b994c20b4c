"""The influence of each input token on each output token: which outputs change, and by how much."""

import copy
from typing import Any

import numpy as np

from ..module import Module, named_parts
from ..types import Seed
from .recorder import record

STEP = 1e-5                                     # relative to the largest entry of the perturbed input


def influence(model: Any, *inputs: Any, of: str = "", argument: int = 0, directions: int = 16, rng: Seed = 0) -> np.ndarray:
    """Returns a (T_out, T_in) array: entry t, s is the norm of the derivative of output t with respect to input s.

    That is the norm of one block of the Jacobian. It is measured with central differences of forward, so backward
    plays no part. The model is copied, converted to float64 and put into eval mode. Where output t does not depend on
    input s, the entry is exactly 0.

    Parameters:
        model : any object with forward and backward
        inputs : arguments of its forward, for one sequence
        of : dotted name of the component whose input is perturbed; "" is the model itself. Token ids cannot be
            perturbed: name a component that takes their embeddings, such as of="decoder".
        argument : index of the perturbed argument among that component's inputs
        directions : number of directions in which each token is perturbed. With at most that many features, every
            direction is used and the norm is exact; otherwise random orthogonal directions give an estimate.
        rng : generator or seed of the random directions

    Raises:
        ValueError for more than one sequence, a component that is called twice, or a missing argument
        TypeError for an input that is not a float array, or a forward that does not compute in float64
        RuntimeError inside `with nt.record(model)`, since a recorded model must not be copied
    """
    if "forward" in vars(model):
        raise RuntimeError("influence copies the model, which is not possible inside `with nt.record`; call it outside")
    if directions < 1:
        raise ValueError(f"directions = {directions}: at least one is needed")
    model = copy.deepcopy(model)
    for _, part in named_parts(model):
        if isinstance(part, Module):
            part.astype(np.float64).eval()
    inputs = [x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in inputs]
    y, tape = output(model, inputs)
    x = input_to_perturb(tape, of, argument, repr(of or type(model).__name__), y.dtype)
    T, D = x.shape[-2:]
    units = np.eye(D)
    if D > directions:
        units = np.linalg.qr(np.random.default_rng(rng).standard_normal((D, directions)))[0].T
    step = STEP * (np.abs(x).max() or 1.0)
    squares = 0
    for unit in units:
        columns = []
        for s in range(T):
            perturbation = np.zeros(x.shape)
            perturbation[..., s, :] = step * unit
            higher, _ = output(model, inputs, of, argument, perturbation)
            lower, _ = output(model, inputs, of, argument, -perturbation)
            columns.append(np.linalg.norm(higher - lower, axis=-1) / (2 * step))
        squares = squares + np.array(columns).T ** 2
    return np.sqrt(squares * D / len(units))


def output(model, inputs, of="", argument=0, perturbation=None):
    """Returns the output (T, n) and the tape of a forward with the perturbation added to an input of component `of`."""
    def change(call):
        if call.name == of and call.output is None and perturbation is not None:
            x = call.inputs[argument] + perturbation
            call.inputs = (*call.inputs[:argument], x, *call.inputs[argument + 1:])

    with record(model, change) as tape:
        y = np.asarray(model.forward(*inputs))
    if y.ndim < 2 or y.size != np.prod(y.shape[-2:]):
        raise ValueError(f"the output has shape {y.shape}; influence needs one sequence: (T, n) or (1, T, n)")
    return y.reshape(y.shape[-2:]), tape


def input_to_perturb(tape, of, argument, title, output_dtype):
    """Returns the input to perturb, or raises an error that says why it cannot be perturbed."""
    given = tape[of].inputs
    calls = sum(call.name == of for call in tape.calls)
    if calls > 1:
        raise ValueError(f"{title} is called {calls} times, but only one input can be perturbed; "
                         "name the component that contains it")
    if not 0 <= argument < len(given):
        raise ValueError(f"argument = {argument}: {title} has inputs 0 to {len(given) - 1}")
    x = given[argument]
    is_float_sequence = isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.ndim >= 2
    if not is_float_sequence:
        raise TypeError(f"input {argument} of {title} is {kind_of_input(x)}, which cannot be perturbed; "
                        'name a component that takes (T, features) with of=, such as of="decoder"')
    if x.dtype != np.float64 or output_dtype != np.float64:
        raise TypeError(f"{title} computes {output_dtype} from {x.dtype}, which is too coarse for small differences; "
                        "use float64")
    return x


def kind_of_input(x):
    return f"an array of {x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else f"a {type(x).__name__}"
