"""The linear layer: its backward pass as a function, and the whole layer as a class."""

from types import SimpleNamespace

from ...layers import Linear as PackageLinear
from .definition import Exercise, Mistake
from .given import CLEARED, NOTHING_LEFT, Parameter, loaded


def linear_backward(x, weight, dy):
    """Computes the gradients of y = x weight + bias.

    All rows of x share weight and bias.

    x: (..., d_in), with any number of leading axes, or none.
    weight: (d_in, d_out).
    dy: (..., d_out), dL/dy.
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
    """A linear layer, y = x weight + bias.

    The layer can be used several times before its first backward pass. Each backward pass belongs to the latest forward
    pass that has not had one yet, so after two forward passes, the first backward pass belongs to the second of them.
    backward adds (+=) into weight.grad: (d_in, d_out) and bias.grad: (d_out,).
    """

    def __init__(self, weight, bias):
        self.weight, self.bias = Parameter(weight), Parameter(bias)
        self.saved = []                         # values that forward saves for backward, the latest last

    def forward(self, x):
        """x: (..., d_in).  Return y: (..., d_out)."""
        self.saved.append(x)
        return x @ self.weight.data + self.bias.data

    def backward(self, dy):
        """dy: (..., d_out), dL/dy.  Return dx: (..., d_in); add into weight.grad and bias.grad."""
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
    return [("all uses have the same length", draw_twice(rng, SimpleNamespace(lead=(5,), D=4, F=3), longer=0)),
            ("x is a single row, (d_in,)", draw_twice(rng, SimpleNamespace(lead=(), D=4, F=3)))]


TRANSPOSED = ("Your weight gradient is transposed. It must have the same shape as the weight, (d_in, d_out). If d_in = "
              "d_out, the shape does not reveal the mistake, but the numbers are still wrong.")
BACK = ("You multiply by the weight itself. Backward needs its transpose, because dx_d is a sum over the outputs f, "
        "each with its slope weight_df.")
BATCH_AXIS = ("Your weight gradient keeps the batch axis, so it has one matrix for each sequence. All sequences used "
              "the same weight, so the gradients must be summed over all leading axes.")
REVERSED = ("x.T reverses all axes, so it is the transposed matrix of the formula only if x has two axes. Flatten the "
            "leading axes into one first.")
LAST_ROW = ("Only the last row contributes to your weight gradient. Every row used the weight, so its gradient is a "
            "sum over all rows. Does a loop assign where it should add?")
MEAN = ("You divide the gradients of weight and bias by the number of rows. They are sums. If the loss is a mean, dy "
        "already contains that factor.")
BATCH_MEAN = ("You divide the gradients of weight and bias by the length of the first axis. They are sums. If the loss "
              "is a mean, dy already contains that factor.")
FIRST_AXIS = ("You sum the bias gradient over the first axis only. Every row used the same bias, so the sum runs over "
              "all axes except the last.")

EXERCISES = [
    Exercise(
        "02.1", "The linear layer, backward", minutes=15, lines=4,
        solution=linear_backward, reference=by_linear, inputs=draw_backward, outputs=("dx", "dweight", "dbias"),
        hints=("Each gradient has the shape of its array. Which products of dy with x and weight have these shapes?",
               "All rows of x share weight and bias, so their gradients are sums over all rows, however many leading "
               "axes there are.",
               "Flatten the leading axes into one. Then dweight = x.T @ dy and dbias = dy.sum(0); dx = dy @ weight.T."),
        mistakes=(
            Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"}, TRANSPOSED),
            Mistake("LIN-2", {"weight.T, dweight": "weight, dweight"}, BACK),
            Mistake("LIN-3a", {"rows.T @ drows": "x.mT @ dy"}, BATCH_AXIS),
            Mistake("LIN-3b", {"rows.T @ drows": "rows[-1][:, None] * drows[-1]"}, LAST_ROW),
            Mistake("LIN-3c", {"rows.T @ drows": "x.T @ dy"}, REVERSED),
            Mistake("LIN-4a", {"@ drows": "@ drows / len(rows)", "drows.sum(0)": "drows.mean(0)"}, MEAN),
            Mistake("LIN-4b", {"@ drows": "@ drows / len(x)", "drows.sum(0)": "drows.sum(0) / len(x)"}, BATCH_MEAN),
            Mistake("LIN-4c", {"drows.sum(0)": "drows.mean(0)"},
                    "Your dbias is a mean over the rows. It must be a sum. If the loss is a mean, dy already contains "
                    "that factor."),
            Mistake("LIN-5a", {"drows.sum(0)": "dy.sum(0)"}, FIRST_AXIS),
            Mistake("LIN-5b", {"drows.sum(0)": "drows.sum(-1)"},
                    "You sum dbias over the features. The bias has one entry for each feature, so sum over the rows "
                    "instead."),
            Mistake("LIN-5c", {"drows.sum(0)": "drows.sum()"},
                    "Your dbias is a single number. The bias has one entry for each feature, so keep that axis."),
            Mistake("LIN-5d", {"drows.sum(0)": "drows.sum(0, keepdims=True)"},
                    "Your dbias has one axis too many. A gradient has the shape of its array, here (d_out,)."),
            Mistake("LIN-9", {"return dy @": "return drows @"},
                    "Your dx has lost the leading axes of x. If you flatten them for the sums, restore the shape of x "
                    "for dx."),
            Mistake("LIN-10", {"return dy @ weight.T, dweight, dbias": "return dweight, dbias, dy @ weight.T"},
                    "You return the gradients in the wrong order. Return that of the input first, then weight, then "
                    "bias."),
            Mistake("LIN-3d", {"rows.T @ drows": "(x.mT @ dy).sum(0)", "drows.sum(0)": "dy.sum((0, 1))"},
                    "You sum over the first two axes, which is right only for three axes. x may have any number of "
                    "leading axes: one, several or none."),
            Mistake("LIN-3e", {"rows.T @ drows": "(x.mT @ dy).sum(0)"},
                    "You sum the products of the sequences over the first axis, which is right only for three axes. "
                    "x may have any number of leading axes: one, several or none."),
            Mistake("LIN-3f", {
                    "x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])":
                    "x.reshape(-1, x.shape[1]), dy.reshape(-1, dy.shape[1])"},
                    "You use shape[1] as the number of features. That is right only for two axes; the features are "
                    "always the last axis."),
            Mistake("LIN-3g", {"rows.T @ drows": "(x[..., :, None] * dy[..., None, :]).sum(0)"},
                    "Your weight gradient is summed over the first axis only. Every row used the weight, so the sum "
                    "runs over all leading axes."),
            Mistake("LIN-3h", {"rows.T @ drows": "np.outer(rows.sum(0), drows.sum(0))"},
                    "You sum x and dy over the rows before you multiply them, which mixes the input of one row with "
                    "the gradient of another."),
            Mistake("LIN-3i", {"rows.T @ drows": "rows[0][:, None] * drows[0]"},
                    "Only the first row contributes to your weight gradient. Every row used the weight, so its "
                    "gradient is a sum over all rows."),
            Mistake("LIN-4d", {"@ drows": "@ drows / len(rows)"},
                    "You divide the weight gradient by the number of rows. It is a sum. If the loss is a mean, dy "
                    "already contains that factor."),
            Mistake("LIN-1b", {"rows.T @ drows": "dy.T @ x"},
                    "You multiply dy.T by x. The order gives the transpose of the weight gradient, and .T reverses "
                    "all axes, however many there are."),
            Mistake("LIN-2b", {"dy @ weight.T": "weight @ dy"},
                    "You multiply the weight by dy from the left. dy has one row for each row of x, so it must be on "
                    "the left, and the weight must turn d_out features into d_in."),
            Mistake("LIN-2c", {"dy @ weight.T": "dy * weight.T"},
                    "* multiplies entry by entry. dx is a matrix product: each entry of it is a sum over the "
                    "outputs."),
            Mistake("LIN-2d", {"dy @ weight.T": "np.broadcast_to(weight.sum(-1), x.shape) + 0"},
                    "Your dx does not depend on dy. It needs the upstream gradient of each output."),
            Mistake("LIN-5e", {"drows.sum(0)": "dy.sum((0, 1))"},
                    "You sum the bias gradient over the first two axes, which is right only for three axes. The sum "
                    "runs over all axes except the last."),
            Mistake("LIN-5f", {"drows.sum(0)": "dy.sum(1)"},
                    "You sum the bias gradient over axis 1 only. Every row used the same bias, so the sum runs over "
                    "all axes except the last."),
            Mistake("LIN-5g", {"drows.sum(0)": "dy"},
                    "Your dbias is dy itself. All rows share the bias, so its gradient is the sum of theirs."),
            Mistake("LIN-10b", {"weight.T, dweight, dbias": "weight.T, dbias, dweight"},
                    "You return dweight and dbias in the wrong order."),
            Mistake("LIN-4e", {
                    "return dy @ weight.T": "return dy @ weight.T / len(rows)", "@ drows": "@ drows / len(rows)",
                    "drows.sum(0)": "drows.mean(0)"},
                    "You divide all gradients by the number of rows. If the loss is a mean, dy already contains that "
                    "factor."),
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
        outputs=("y", "second y", "second dx", "third y", "third dx", "dx", "weight.grad", "bias.grad"),
        hints=("Which values does backward need that are not among its arguments? forward has seen them, and if it was "
               "called twice, it has seen two of them.",
               "Each backward pass belongs to the latest forward pass, so append in forward and pop in backward. Every "
               "use adds to the gradients.",
               "Pop x and flatten the leading axes of x and dy to get rows and drows. Then weight.grad += rows.T @ "
               "drows and bias.grad += drows.sum(0). Return dy @ weight.T."),
        mistakes=(
            Mistake("LIN-1", {"rows.T @ drows": "drows.T @ rows"}, TRANSPOSED),
            Mistake("LIN-2", {"dy @ self.weight.data.T": "dy @ self.weight.data"}, BACK),
            Mistake("LIN-3a", {"rows.T @ drows": "x.mT @ dy"}, BATCH_AXIS),
            Mistake("LIN-3b", {"rows.T @ drows": "rows[-1][:, None] * drows[-1]"}, LAST_ROW),
            Mistake("LIN-3c", {"rows.T @ drows": "x.T @ dy"}, REVERSED),
            Mistake("LIN-4a", {"@ drows": "@ drows / len(rows)", "drows.sum(0)": "drows.mean(0)"}, MEAN),
            Mistake("LIN-4b", {"@ drows": "@ drows / len(x)", "drows.sum(0)": "drows.sum(0) / len(x)"}, BATCH_MEAN),
            Mistake("LIN-5a", {"drows.sum(0)": "dy.sum(0)"}, FIRST_AXIS),
            Mistake("LIN-6", {"self.saved.append(x)": "self.saved.append(x @ self.weight.data + self.bias.data)"},
                    "Your forward saves its output. The weight was multiplied by the input, so the weight gradient "
                    "needs the input."),
            Mistake("LIN-7a", {"self.weight.grad += ": "self.weight.grad = "},
                    "weight.grad contains only the result of the latest backward pass, because each one overwrites the "
                    "result of the one before. Add with += instead."),
            Mistake("LIN-7b", {"self.bias.grad += ": "self.bias.grad = "},
                    "bias.grad contains only the result of the latest backward pass, because each one overwrites the "
                    "result of the one before. Add with += instead."),
            Mistake("LIN-7c", {"self.saved.append(x)": "self.weight.grad[:] = 0\n        self.bias.grad[:] = 0\n"
                               "        self.saved.append(x)"}, CLEARED),
            Mistake("LIN-11a", {"self.saved.pop()": "self.saved.pop(0)"},
                    "Your first backward pass uses the input of the first forward pass. It belongs to the latest one: "
                    "last in, first out."),
            Mistake("LIN-11b", {"self.saved.pop()": "self.saved[-1]"},
                    "Your backward passes use the input of the latest forward pass. Either your layer has room for one "
                    "input only, or backward never removes it. Save the input of each forward pass, and remove it in "
                    "the backward pass that uses it."),
            Mistake("LIN-12", {" + self.bias.data": ""},
                    "Your forward leaves out the bias. The output is y = x weight + bias."),
            Mistake("LIN-13", {"self.saved.pop()": "self.saved[0]"},
                    "All backward passes use the input of the first forward pass. Each belongs to the latest "
                    "forward pass that has not had one yet."),
            Mistake("LIN-4c", {"drows.sum(0)": "drows.mean(0)"},
                    "Your gradient of the bias is a mean over the rows. It must be a sum. If the loss is a mean, dy "
                    "already contains that factor."),
            Mistake("LIN-5c", {"drows.sum(0)": "drows.sum()"},
                    "You add one number to all entries of bias.grad. The bias has one entry for each feature, so "
                    "keep that axis."),
            Mistake("LIN-5d", {"drows.sum(0)": "drows.sum(0, keepdims=True)"},
                    "The gradient that you add to bias.grad has one axis too many. A gradient has the shape of its "
                    "array, here (d_out,)."),
            Mistake("LIN-9", {"return dy @": "return drows @"},
                    "Your dx has lost the leading axes of x. If you flatten them for the sums, restore the shape of "
                    "x for dx."),
            Mistake("LIN-14a", {"self.weight.grad += ": "self.weight.data += "},
                    "You add the gradient to the weight itself. It belongs into weight.grad; only an optimizer "
                    "changes weight.data."),
            Mistake("LIN-14b", {"self.weight.grad +=": "self.weight.grad -="},
                    "You subtract the gradient from weight.grad. Backward adds it; the minus of gradient descent "
                    "belongs to the optimizer."),
            Mistake("LIN-15", {"x @ self.weight.data +": "x @ self.weight.data.T +"},
                    "Your forward transposes the weight. It has shape (d_in, d_out), so x @ weight needs no "
                    "transpose."),
            Mistake("LIN-16", {"        self.saved.append(x)\n": ""},
                    NOTHING_LEFT),
            Mistake("LIN-15b", {"x @ self.weight.data +": "self.weight.data @ x +"},
                    "Your forward multiplies the weight by x from the left. x has one row for each token, so it must "
                    "be on the left, and the weight turns d_in features into d_out."),
            Mistake("LIN-3d", {"rows.T @ drows": "(x.mT @ dy).sum(0)"},
                    "You sum the products over the first axis, which is right only for three axes. x may have any "
                    "number of leading axes: one, several or none."),
            Mistake("LIN-17", {"dy @ self.weight.data.T": "dy @ self.weight.grad.T"},
                    "You multiply dy by the gradient of the weight. dx depends on the weight itself, weight.data."),
        ),
        alternatives={
            "into the arrays": {"self.weight.grad += rows": "self.weight.grad[...] += rows"},
            "saves rows": {"self.saved.append(x)": "self.saved.append(x.reshape(-1, x.shape[-1]))"}}),
]
