"""Which input moves which output, and by how much: an X-ray of a model."""

import copy

import numpy as np

from ..module import Module, named_parts
from .recorder import record

STEP = 1e-5                                     # times the largest entry of what is moved


def influence(model, *inputs, of="", argument=0, directions=16, rng=0):
    """(T_out, T_in): entry t, s is the norm of the derivative of output t in input s, a block of the Jacobian.

    Measured by central differences of the forward alone, on a copy in float64 and in eval: what backward says has no
    part in it. Where there is no way from s to t, the entry is exactly 0.

    Parameters:
        model : whatever has forward and backward; inputs : those of its forward, of one sequence
        of, argument : the component (dotted name; "" is the model itself) and which of its inputs is moved. Ids cannot
            be moved: name what takes their embeddings, such as of="decoder".
        directions : int, in how many directions each token is moved. All of them, if there are no more features;
            else random orthogonal ones, whose norm is an estimate; rng : generator or seed of them
    Raises: ValueError for more than one sequence, a component that is called twice or an argument that is not there;
        TypeError for an input that is not made of floats, or a forward that does not keep float64.
    """
    if "forward" in vars(model):
        raise RuntimeError("influence copies the model, which may not be done inside `with nt.record`; call it outside")
    if directions < 1:
        raise ValueError(f"directions = {directions}: at least one is needed")
    model = copy.deepcopy(model)
    for _, part in named_parts(model):
        if isinstance(part, Module):
            part.astype(np.float64).eval()
    inputs = [x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in inputs]

    def output(move=None):
        def change(call):
            if call.name == of and call.output is None and move is not None:
                call.inputs = (*call.inputs[:argument], call.inputs[argument] + move, *call.inputs[argument + 1:])

        with record(model, change) as tape:
            y = np.asarray(model.forward(*inputs))
        if y.ndim < 2 or y.size != np.prod(y.shape[-2:]):
            raise ValueError(f"the output has shape {y.shape}: wanted one sequence, (T, n) or (1, T, n)")
        return y.reshape(y.shape[-2:]), tape

    y, tape = output()
    x = what_moves(tape, of, argument, repr(of or type(model).__name__), y.dtype)
    T, D = x.shape[-2:]
    ways = np.eye(D)
    if D > directions:
        ways = np.linalg.qr(np.random.default_rng(rng).standard_normal((D, directions)))[0].T
    step, squares = STEP * (np.abs(x).max() or 1.0), 0
    for way in ways:
        columns = []
        for s in range(T):
            move = np.zeros(x.shape)
            move[..., s, :] = step * way
            columns.append(np.linalg.norm(output(move)[0] - output(-move)[0], axis=-1) / (2 * step))
        squares = squares + np.array(columns).T ** 2
    return np.sqrt(squares * D / len(ways))


def what_moves(tape, of, argument, title, dtype):
    """The input that will be moved, if it can be."""
    given, calls = tape[of].inputs, sum(call.name == of for call in tape.calls)
    if calls > 1:
        raise ValueError(f"{title} is called {calls} times, and only one input can be moved; name what is around it")
    if not 0 <= argument < len(given):
        raise ValueError(f"argument = {argument}: {title} has the inputs 0 to {len(given) - 1}")
    x = given[argument]
    if not (isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.ndim >= 2):
        raise TypeError(f"input {argument} of {title} is {describe(x)}, which cannot be moved; "
                        'name a component that takes (T, features) with of=, such as of="decoder"')
    if x.dtype != np.float64 or dtype != np.float64:
        raise TypeError(f"{title} computes {x.dtype} to {dtype}, where small differences are lost; use float64")
    return x


def describe(x):
    return f"an array of {x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else f"a {type(x).__name__}"
