"""Low-rank adaptation: the backward pass of a frozen linear layer with a trained update of low rank."""

from ...layers import Linear, LoRALinear
from .definition import Exercise, Mistake


def lora_backward(x, weight, A, B, s, dy):
    """Computes the gradients of y = x weight + s (x A) B, where weight is frozen (Hu et al. 2021, equation 3).

    x: (..., d_in), with any number of leading axes, or none.
    weight: (d_in, d_out).
    A: (d_in, r) and B: (r, d_out). r is the rank of the update.
    s: a number.
    dy: (..., d_out), dL/dy.
    Return dx: (..., d_in), dA: (d_in, r), dB: (r, d_out). The gradient of weight is not needed.
    """
    rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    du = s * (drows @ B.T)
    dA = rows.T @ du
    dB = s * ((rows @ A).T @ drows)
    dx = drows @ weight.T + du @ A.T
    return dx.reshape(x.shape), dA, dB


def draw(rng, n, rank=None):
    rank = n.H + 2 if rank is None else rank
    arrays = [rng.standard_normal(shape) for shape in ((*n.lead, n.D), (n.D, n.F), (n.D, rank), (rank, n.F))]
    return *arrays, round(float(rng.uniform(1.5, 2.5)), 3), rng.standard_normal((*n.lead, n.F))


def special(rng):
    """B is zero at the start of training; and cases in which a wrong transpose has the right shape."""
    def arrays(lead, d_in, rank, d_out, B=1.0):
        x, dy = rng.standard_normal((*lead, d_in)), rng.standard_normal((*lead, d_out))
        A, weight = rng.standard_normal((d_in, rank)), rng.standard_normal((d_in, d_out))
        return x, weight, A, B * rng.standard_normal((rank, d_out)), 0.5, dy

    return [("B is zero, as at the start of training", arrays((4,), 5, 2, 3, 0.0)),
            ("r = d_in = d_out", arrays((3, 2), 4, 4, 4)), ("rank 1, and x is a single row, (d_in,)", arrays((), 5, 1, 3))]


def by_layer(x, weight, A, B, s, dy):
    layer = LoRALinear(Linear(*weight.shape, bias=False), 1, alpha=s).astype(weight.dtype)
    layer.weight.data = weight
    layer.A, layer.B = type(layer.A)(A), type(layer.B)(B)
    layer(x)
    return layer.backward(dy), layer.A.grad, layer.B.grad


DU, DA, DB = "s * (drows @ B.T)", "rows.T @ du", "s * ((rows @ A).T @ drows)"
DX = "drows @ weight.T + du @ A.T"
FACTOR = ("s multiplies the whole second term of y, and the chain rule carries it into every gradient that passes "
          "through this term.")

EXERCISES = [
    Exercise(
        "21.1", "A linear layer with LoRA, backward", minutes=15, lines=6,
        solution=lora_backward, reference=by_layer, inputs=draw, edges=special, outputs=("dx", "dA", "dB"),
        hints=("y is a sum of two terms. Which arrays does each of them contain? x occurs in both.",
               "Name the intermediate values: u = x A and y = x weight + s u B. Go back through the second term step by "
               "step: from dy to dB and du, and from du to dA and a part of dx.",
               "Flatten the leading axes. du = s dy B.T; dA = x.T du; dB = s (x A).T dy; dx = dy weight.T + du A.T, in "
               "the shape of x."),
        mistakes=(
            Mistake("LOR-1a", {DA: f"{DA} / s"}, f"Your dA does not contain s. {FACTOR}"),
            Mistake("LOR-1b", {DB: "(rows @ A).T @ drows"}, f"Your dB does not contain s. {FACTOR}"),
            Mistake("LOR-1c", {"+ du @ A.T": "+ du @ A.T / s"},
                    f"The part of dx that comes through A does not contain s: x is multiplied by weight + s A B. {FACTOR}"),
            Mistake("LOR-1d", {DU: "drows @ B.T"}, f"Your dA and dx do not contain s; only dB does. {FACTOR}"),
            Mistake("LOR-1e", {DU: "drows @ B.T", DB: "(rows @ A).T @ drows"}, f"s is missing everywhere. {FACTOR}"),
            Mistake("LOR-1f", {DA: f"s * ({DA})"},
                    "Your dA contains s twice. s occurs once in y, so once in dA."),
            Mistake("LOR-1g", {"+ du @ A.T": "+ s * du @ A.T"},
                    "The part of dx that comes through A contains s twice. s occurs once in y, so once in this part."),
            Mistake("LOR-1h", {DB: "s * " + DB}, "Your dB contains s twice. s occurs once in y, so once in dB."),
            Mistake("LOR-1i", {DX: "s * (drows @ weight.T) + du @ A.T"},
                    "You multiply the path through weight by s, too. s belongs to the second term of y only."),
            Mistake("LOR-1j", {DU: "(drows @ B.T) / s", DB: "(rows @ A).T @ drows / s"},
                    "You divide by s. Backward multiplies by the same factor as forward."),
            Mistake("LOR-2a", {DX: "drows @ weight.T"},
                    "Your dx goes through weight only. x occurs in both terms of y, so the gradients of both paths are "
                    "added."),
            Mistake("LOR-2b", {DX: "du @ A.T"},
                    "Your dx goes through A and B only. weight is frozen, which means that it is not trained; x still "
                    "passes through it, forward and backward."),
            Mistake("LOR-2c", {DX: "drows @ weight.T - du @ A.T"},
                    "You subtract the two paths of dx. Gradients of two uses are added."),
            Mistake("LOR-3a", {"return dx.reshape(x.shape), dA, dB": "return dx.reshape(x.shape), dB, dA"},
                    "You return dA and dB in the wrong order."),
            Mistake("LOR-3b", {"return dx.reshape(x.shape), dA, dB": "return dA, dB, dx.reshape(x.shape)"},
                    "You return dx last. Return the gradient of the input first, then dA and dB."),
            Mistake("LOR-3c", {"return dx.reshape(x.shape)": "return dx"},
                    "Your dx has lost the leading axes of x. If you flatten them for the products, restore the shape "
                    "of x for dx."),
            Mistake("LOR-4a", {DA: f"({DA}) / len(rows)", DB: f"{DB} / len(rows)"},
                    "You divide dA and dB by the number of rows. They are sums over the rows. If the loss is a mean, "
                    "dy already contains that factor."),
            Mistake("LOR-4b", {DA: f"({DA}) / len(rows)"},
                    "You divide dA by the number of rows. It is a sum over the rows, like dB."),
            Mistake("LOR-4c", {DB: f"{DB} / len(rows)"},
                    "You divide dB by the number of rows. It is a sum over the rows, like dA."),
            Mistake("LOR-5a", {DA: f"({DA}).T"},
                    "Your dA is transposed. A gradient has the shape of its array, (d_in, r)."),
            Mistake("LOR-5b", {DB: f"({DB}).T"},
                    "Your dB is transposed. A gradient has the shape of its array, (r, d_out)."),
            Mistake("LOR-6a", {DB: "s * (np.outer((rows @ A).sum(0), drows.sum(0)))"},
                    "You sum x A and dy over the rows before you multiply them, which mixes the input of one row with "
                    "the gradient of another."),
            Mistake("LOR-6b", {DA: "np.outer(rows.sum(0), du.sum(0))"},
                    "For dA you sum over the rows before you multiply, which mixes the input of one row with the "
                    "gradient of another."),
            Mistake("LOR-7", {"rows, drows = ": "dy *= s\n    rows, drows = ", DU: "drows @ B.T",
                              DB: "(rows @ A).T @ drows", DX: "drows @ weight.T / s + du @ A.T"},
                    "You multiply dy by s in place, but the caller may still need it. Make a new array."),
        ),
        alternatives={
            "through the product": {DU: "drows", DA: "s * (rows.T @ drows) @ B.T", "+ du @ A.T": "+ s * du @ B.T @ A.T",
                                    DB: "s * A.T @ (rows.T @ drows)"},
            "one matrix for dx": {DX: "drows @ (weight + s * A @ B).T"},
            "einsum": {DA: 'np.einsum("ni,nr->ir", rows, du)'}}),
]
