"""The linear layer: its backward as a function, and the whole as a class."""

from types import SimpleNamespace

from ...layers import Linear as PackageLinear
from ..exercise import Exercise, Mistake
from .given import Parameter, loaded


def linear_backward(x, weight, dy):
    """The gradients of y = x weight + bias.

    x: (..., d_in), any number of leading axes, or none.  weight: (d_in, d_out).  dy: (..., d_out), dL/dy.
    All rows of x share weight and bias. Return dx: (..., d_in), dweight: (d_in, d_out), dbias: (d_out,).
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

    forward takes x: (..., d_in) and returns y: (..., d_out). backward takes dy: (..., d_out), returns dx: (..., d_in),
    and adds (+=) into weight.grad (d_in, d_out) and bias.grad (d_out,). It belongs to the latest forward that has had
    no backward yet: of two forwards, the second is answered first.
    """

    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.memory = []                        # what forward remembers, the latest last

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


def draw_twice(rng, n, longer=1):
    """Used twice, the second time with a longer first axis, if there is one; the backwards in reverse order."""
    def normal(rows, width):
        return rng.standard_normal((*rows, width))
    later = tuple(size + longer * (axis == 0) for axis, size in enumerate(n.lead))
    weights = normal((n.D,), n.F) / n.D ** 0.5, normal((), n.F)
    return weights, (("forward", (normal(n.lead, n.D),)), ("forward", (normal(later, n.D),)),
                     ("backward", (normal(later, n.F),)), ("backward", (normal(n.lead, n.F),)))


def other_lengths(rng):
    """Where both uses have one length, mixed up inputs show in the numbers, and nowhere as an error."""
    return [("both uses of one length", draw_twice(rng, SimpleNamespace(lead=(5,), D=4, F=3), longer=0)),
            ("x is a single row, (d_in,)", draw_twice(rng, SimpleNamespace(lead=(), D=4, F=3)))]


TRANSPOSED = ("The gradient of the weight comes out transposed: it must have the weight's own shape, (d_in, d_out). "
              "Where d_in = d_out the shape does not show it, and the numbers are wrong all the same.")
BACK = "The way back goes through the transposed weight: dx_d sums over the outputs f, each with its slope weight_df."
BATCH_AXIS = ("The weight's gradient keeps the batch axis: one matrix for each sequence. All of them used the same "
              "weight, so the gradients are summed over all leading axes.")
REVERSED = ("x.T reverses all axes. It is the transposed matrix of the formula only where x has two of them: make the "
            "leading axes one first.")
LAST_ROW = ("Only the last row has arrived in the weight's gradient. Every row used the weight, so its gradient is a "
            "sum over all rows; does a loop assign where it should add?")
MEAN = ("The gradients of weight and bias are divided by the number of rows. They are sums: if the loss is a mean, dy "
        "carries that factor already.")
BATCH_MEAN = ("The gradients of weight and bias are divided by the length of the first axis. They are sums: if the "
              "loss is a mean, dy carries that factor already.")
FIRST_AXIS = ("The bias gradient is summed over the first axis alone. Every axis but the last is summed: each row used "
              "the same bias.")

EXERCISES = [
    Exercise(
        "02.1", "The linear layer, backward", minutes=15, lines=4,
        solution=linear_backward, reference=by_linear, inputs=draw_backward, outputs=("dx", "dweight", "dbias"),
        hints=("Each gradient has the shape of its array. Which products of dy with x and weight have these shapes?",
               "All rows of x share weight and bias, so their gradients are sums over all rows, whatever the leading "
               "axes.",
               "With all leading axes made one, dweight = x.T @ dy and dbias = dy.sum(0); dx = dy @ weight.T."),
        mistakes=(
            Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"}, TRANSPOSED),
            Mistake("LIN-2", {"weight.T, dweight": "weight, dweight"}, BACK),
            Mistake("LIN-3a", {"rows.T @ drows": "x.mT @ dy"}, BATCH_AXIS),
            Mistake("LIN-3b", {"rows.T @ drows": "rows[-1][:, None] * drows[-1]"}, LAST_ROW),
            Mistake("LIN-3c", {"rows.T @ drows": "x.T @ dy"}, REVERSED),
            Mistake("LIN-4a", {"@ drows": "@ drows / len(rows)", "drows.sum(0)": "drows.mean(0)"}, MEAN),
            Mistake("LIN-4b", {"@ drows": "@ drows / len(x)", "drows.sum(0)": "drows.sum(0) / len(x)"}, BATCH_MEAN),
            Mistake("LIN-4c", {"drows.sum(0)": "drows.mean(0)"},
                    "dbias is a mean over the rows. It is a sum: if the loss is a mean, dy carries that factor "
                    "already."),
            Mistake("LIN-5a", {"drows.sum(0)": "dy.sum(0)"}, FIRST_AXIS),
            Mistake("LIN-5b", {"drows.sum(0)": "drows.sum(-1)"},
                    "dbias is summed over the features. The bias has one entry for each feature: sum over the rows "
                    "instead."),
            Mistake("LIN-5c", {"drows.sum(0)": "drows.sum()"},
                    "dbias is one number. The bias has one entry for each feature, so that axis stays."),
            Mistake("LIN-5d", {"drows.sum(0)": "drows.sum(0, keepdims=True)"},
                    "dbias has one axis too many: a gradient has the shape of its array, (d_out,)."),
            Mistake("LIN-9", {"return dy @": "return drows @"},
                    "dx has lost the leading axes of x: what was made one axis for the sums must be given back its "
                    "shape."),
            Mistake("LIN-10", {"return dy @ weight.T, dweight, dbias": "return dweight, dbias, dy @ weight.T"},
                    "The gradients come back in another order than asked: the input's first, then weight, then bias."),
        ),
        alternatives={
            "einsum": {"rows.T @ drows": 'np.einsum("ni,no->io", rows, drows)'},
            "tensordot": {"rows.T @ drows": "np.tensordot(rows, drows, (0, 0))"},
            "outer products": {"rows.T @ drows": "sum(np.outer(row, drow) for row, drow in zip(rows, drows))"},
            "all axes but the last": {"drows.sum(0)": "dy.sum(tuple(range(dy.ndim - 1)))"}}),
    Exercise(
        "02.2", "The linear layer, a class", minutes=20, lines=7,
        solution=Linear, write=("forward", "backward"), given=(Parameter,), inputs=draw_twice, edges=other_lengths,
        reference=lambda weight, bias: loaded(PackageLinear(*weight.shape), {"weight": weight, "bias": bias}),
        outputs=("y", "second y", "second dx", "dx", "weight.grad", "bias.grad"),
        hints=("What does backward need that it is not told? forward has seen it; used twice, it has seen two.",
               "backward answers the latest forward: append in forward, pop in backward. Every use adds to the "
               "gradients.",
               "pop x; weight.grad += rows(x).T @ rows(dy), bias.grad += rows(dy).sum(0); return dy @ weight.T."),
        mistakes=(
            Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"}, TRANSPOSED),
            Mistake("LIN-2", {"dy @ self.weight.data.T": "dy @ self.weight.data"}, BACK),
            Mistake("LIN-3a", {"rows.T @ drows": "x.mT @ dy"}, BATCH_AXIS, twin="LIN-3c"),
            Mistake("LIN-3b", {"rows.T @ drows": "rows[-1][:, None] * drows[-1]"}, LAST_ROW),
            Mistake("LIN-3c", {"rows.T @ drows": "x.T @ dy"}, REVERSED, twin="LIN-3a"),
            Mistake("LIN-4a", {"@ drows": "@ drows / len(rows)", "drows.sum(0)": "drows.mean(0)"}, MEAN),
            Mistake("LIN-4b", {"@ drows": "@ drows / len(x)", "drows.sum(0)": "drows.sum(0) / len(x)"}, BATCH_MEAN),
            Mistake("LIN-5a", {"drows.sum(0)": "dy.sum(0)"}, FIRST_AXIS),
            Mistake("LIN-6", {"self.memory.append(x)": "self.memory.append(x @ self.weight.data + self.bias.data)"},
                    "forward remembers its output. The weight was multiplied by the input, so its gradient needs the "
                    "input."),
            Mistake("LIN-7a", {"self.weight.grad += ": "self.weight.grad = "},
                    "weight.grad holds the last use alone: each backward overwrites what the one before has found. "
                    "Add."),
            Mistake("LIN-7b", {"self.bias.grad += ": "self.bias.grad = "},
                    "bias.grad holds the last use alone: each backward overwrites what the one before has found. Add."),
            Mistake("LIN-11a", {"self.memory.pop()": "self.memory.pop(0)"},
                    "The first backward takes the input of the first forward. It answers the latest one: last in, "
                    "first out."),
            Mistake("LIN-11b", {"self.memory.pop()": "self.memory[-1]"},
                    "Both backwards take the input of the latest forward: there is one place for it, or it is never "
                    "removed. Two uses need two places, and what has been answered has to go."),
            Mistake("LIN-12", {" + self.bias.data": ""}, "forward leaves out the bias: y is x weight + bias."),
        ),
        alternatives={
            "into the arrays": {"self.weight.grad += rows": "self.weight.grad[...] += rows"},
            "remembers rows": {"self.memory.append(x)": "self.memory.append(x.reshape(-1, x.shape[-1]))"}}),
]
