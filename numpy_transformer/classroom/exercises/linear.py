"""The linear layer: its backward as a function, and the whole as a class."""

from ...layers import Linear as PackageLinear
from ..exercise import Exercise, Mistake
from .given import Parameter, loaded


def linear_backward(x, weight, dy):
    """The gradients of y = x weight + bias.

    x: (..., d_in).  weight: (d_in, d_out).  dy: (..., d_out), dL/dy.
    Return dx: (..., d_in), dweight: (d_in, d_out), dbias: (d_out,).
    """
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
    """y = x weight + bias, a layer that can be used several times before its gradients are asked for.

    forward takes x: (..., d_in) and returns y: (..., d_out). backward takes dy: (..., d_out), belongs to the latest
    forward without one, returns dx and adds (+=) into weight.grad (d_in, d_out) and bias.grad (d_out,).
    """

    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.memory = []                        # what forward remembers: append there, pop in backward

    def forward(self, x):
        """x: (..., d_in).  Return y: (..., d_out)."""
        self.memory.append(x)
        return x @ self.weight.data + self.bias.data

    def backward(self, dy):
        """dy: (..., d_out), dL/dy.  Return dx: (..., d_in); add into weight.grad and bias.grad."""
        x = self.memory.pop()
        rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        self.weight.grad += rows.T @ drows
        self.bias.grad += drows.sum(0)
        return dy @ self.weight.data.T


def draw_twice(rng, n):
    """Used twice with different lengths, the backwards in reverse order."""
    def normal(rows, width):
        return rng.standard_normal((*rows, width))
    later = (n.lead[0] + 1, *n.lead[1:])
    weights = normal((n.D,), n.F) / n.D ** 0.5, normal((), n.F)
    return weights, (("forward", (normal(n.lead, n.D),)), ("forward", (normal(later, n.D),)),
                     ("backward", (normal(later, n.F),)), ("backward", (normal(n.lead, n.F),)))



EXERCISES = [
    Exercise(
        "05", "The linear layer, backward", "02", minutes=15, lines=4,
        solution=linear_backward, reference=by_linear, inputs=draw_backward, outputs=("dx", "dweight", "dbias"),
        hints=("Each gradient has the shape of its array. Which products of dy with x and weight have these shapes?",
               "All rows of x share weight and bias, so their gradients are sums over all rows, whatever the leading axes.",
               "With all leading axes made one, dweight = x.T @ dy and dbias = dy.sum(0); dx = dy @ weight.T."),
        mistakes=(
            Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"},
                    "dweight is transposed: it has weight's shape, (d_in, d_out). In a square layer nobody would notice."),
            Mistake("LIN-2", {"weight.T, dweight": "weight, dweight"}, "The way back goes through weight transposed."),
        )),
    Exercise(
        "06", "The linear layer, a class", "02", minutes=20, lines=7,
        solution=Linear, write=("forward", "backward"), given=(Parameter,), inputs=draw_twice,
        reference=lambda weight, bias: loaded(PackageLinear(*weight.shape), {"weight": weight, "bias": bias}),
        outputs=("y", "second y", "second dx", "dx", "weight.grad", "bias.grad"),
        hints=("forward keeps what backward needs; used twice, it keeps both.",
               "backward answers the latest forward: append in forward, pop in backward.",
               "pop x; weight.grad += rows(x).T @ rows(dy), bias.grad += rows(dy).sum(0); return dy @ weight.T."),
        mistakes=(
            Mistake("LIN-7", {"self.weight.grad += ": "self.weight.grad = "},
                    "The second use overwrites the first one's gradient: add with +=."),
        )),
]
