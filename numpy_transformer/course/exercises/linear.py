"""The linear layer: its backward pass as a function, and the whole layer as a class."""

from types import SimpleNamespace

from ...layers import Linear as PackageLinear
from .definition import Exercise, Mistake
from .shared import Parameter, loaded


def linear_backward(x, weight, dy):
    rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    dweight = rows.T @ drows
    dbias = drows.sum(0)
    return dy @ weight.T, dweight, dbias


def draw_backward(rng, n):
    return (rng.standard_normal((*n.lead, n.D)), rng.standard_normal((n.D, n.F)) / n.D ** 0.5,
            rng.standard_normal((*n.lead, n.F)))


def by_linear(x, weight, dy):
    layer = PackageLinear(*weight.shape).astype(weight.dtype)
    layer.weight.data = weight
    layer(x)
    return layer.backward(dy), layer.weight.grad, layer.bias.grad


class Linear:
    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.saved = []                         # {saved}

    def forward(self, x):
        self.saved.append(x)
        return x @ self.weight.data + self.bias.data

    def backward(self, dy):
        x = self.saved.pop()
        rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        self.weight.grad += rows.T @ drows
        self.bias.grad += drows.sum(0)
        return dy @ self.weight.data.T


def draw_twice(rng, n, longer=1):
    """Three uses, the second with a longer first axis if there is one, and backward for the latest one each time.

    The third forward follows a backward, whose gradients it must leave as they are.
    """
    def normal(rows, width):
        return rng.standard_normal((*rows, width))
    later = tuple(size + longer if axis == 0 else size for axis, size in enumerate(n.lead))
    weights = normal((n.D,), n.F) / n.D ** 0.5, normal((), n.F)
    return weights, (("forward", (normal(n.lead, n.D),)), ("forward", (normal(later, n.D),)),
                     ("backward", (normal(later, n.F),)), ("forward", (normal(n.lead, n.D),)),
                     ("backward", (normal(n.lead, n.F),)), ("backward", (normal(n.lead, n.F),)))


def other_lengths(rng):
    """If all uses have the same length, mixed-up inputs give wrong numbers but no error."""
    return [("uses_same_length", draw_twice(rng, SimpleNamespace(lead=(5,), D=4, F=3), longer=0)),
            ("x_single_row", draw_twice(rng, SimpleNamespace(lead=(), D=4, F=3)))]


EXERCISES = [
    Exercise(
        "02.1", minutes=15, lines=4, single_row=True,
        solution=linear_backward, reference=by_linear, inputs=draw_backward, outputs=("dx", "dweight", "dbias"),
        mistakes=(
            Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"}),
            Mistake("LIN-2", {"weight.T, dweight": "weight, dweight"}),
            Mistake("LIN-3a", {"rows.T @ drows": "x.mT @ dy"}),
            Mistake("LIN-3b", {"rows.T @ drows": "rows[-1][:, None] * drows[-1]"}),
            Mistake("LIN-3c", {"rows.T @ drows": "x.T @ dy"}),
            Mistake("LIN-4a", {"@ drows": "@ drows / len(rows)", "drows.sum(0)": "drows.mean(0)"}),
            Mistake("LIN-4b", {"@ drows": "@ drows / len(x)", "drows.sum(0)": "drows.sum(0) / len(x)"}),
            Mistake("LIN-4c", {"drows.sum(0)": "drows.mean(0)"}),
            Mistake("LIN-5a", {"drows.sum(0)": "dy.sum(0)"}),
            Mistake("LIN-5b", {"drows.sum(0)": "drows.sum(-1)"}),
            Mistake("LIN-5c", {"drows.sum(0)": "drows.sum()"}),
            Mistake("LIN-9", {"return dy @": "return drows @"}),
            Mistake("LIN-10", {"return dy @ weight.T, dweight, dbias": "return dweight, dbias, dy @ weight.T"}),
            Mistake("LIN-3i", {"rows.T @ drows": "rows[0][:, None] * drows[0]"}),
            Mistake("LIN-2d", {"dy @ weight.T": "np.broadcast_to(weight.sum(-1), x.shape) + 0"}),
        ),
        alternatives={
            "einsum": {"rows.T @ drows": 'np.einsum("ni,no->io", rows, drows)'},
            "tensordot": {"rows.T @ drows": "np.tensordot(rows, drows, (0, 0))"},
            "outer products": {"rows.T @ drows": "sum(np.outer(row, drow) for row, drow in zip(rows, drows))"},
            "all axes but the last": {"drows.sum(0)": "dy.sum(tuple(range(dy.ndim - 1)))"}}),
    Exercise(
        "02.2", minutes=20, lines=7,
        solution=Linear, write=("forward", "backward"), given=(Parameter,), inputs=draw_twice, edges=other_lengths,
        reference=lambda weight, bias: loaded(PackageLinear(*weight.shape), {"weight": weight, "bias": bias}),
        outputs=("y", "second y", "second dx", "third y", "third dx", "dx", "weight.grad", "bias.grad"),
        mistakes=(
            Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"}),
            Mistake("LIN-2", {"dy @ self.weight.data.T": "dy @ self.weight.data"}),
            Mistake("LIN-3a", {"rows.T @ drows": "x.mT @ dy"}),
            Mistake("LIN-3b", {"rows.T @ drows": "rows[-1][:, None] * drows[-1]"}),
            Mistake("LIN-4a", {"@ drows": "@ drows / len(rows)", "drows.sum(0)": "drows.mean(0)"}),
            Mistake("LIN-4b", {"@ drows": "@ drows / len(x)", "drows.sum(0)": "drows.sum(0) / len(x)"}),
            Mistake("LIN-5a", {"drows.sum(0)": "dy.sum(0)"}),
            Mistake("LIN-6", {"self.saved.append(x)": "self.saved.append(x @ self.weight.data + self.bias.data)"}),
            Mistake("LIN-7a", {"self.weight.grad += ": "self.weight.grad = "}),
            Mistake("LIN-7b", {"self.bias.grad += ": "self.bias.grad = "}),
            Mistake("LIN-7c", {
                "self.saved.append(x)":
                    "self.weight.grad[:] = 0\n        self.bias.grad[:] = 0\n        self.saved.append(x)"}),
            Mistake("LIN-11b", {"self.saved.pop()": "self.saved[-1]"}),
            Mistake("LIN-12", {" + self.bias.data": ""}),
            Mistake("LIN-13", {"self.saved.pop()": "self.saved[0]"}),
            Mistake("LIN-4c", {"drows.sum(0)": "drows.mean(0)"}),
            Mistake("LIN-5c", {"drows.sum(0)": "drows.sum()"}),
            Mistake("LIN-14a", {"self.weight.grad += ": "self.weight.data += "}),
            Mistake("LIN-16", {"        self.saved.append(x)\n": ""}),
            Mistake("LIN-17", {"dy @ self.weight.data.T": "dy @ self.weight.grad.T"}),
        ),
        alternatives={
            "into the arrays": {"self.weight.grad += rows": "self.weight.grad[...] += rows"},
            "saves rows": {"self.saved.append(x)": "self.saved.append(x.reshape(-1, x.shape[-1]))"}}),
]
