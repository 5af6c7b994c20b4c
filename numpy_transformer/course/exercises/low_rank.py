"""Low-rank adaptation: the backward pass of a frozen linear layer with a trained update of low rank."""

from ...layers import Linear, LoRALinear
from .definition import Exercise, Mistake


def lora_backward(x, weight, A, B, s, dy):
    rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    du = s * (drows @ B.T)
    dA = rows.T @ du
    dB = s * ((rows @ A).T @ drows)
    dx = drows @ weight.T + du @ A.T
    return dx.reshape(x.shape), dA, dB


def draw_inputs(rng, n, rank=None):
    rank = n.H + 2 if rank is None else rank
    arrays = [rng.standard_normal(shape) for shape in ((*n.lead, n.D), (n.D, n.F), (n.D, rank), (rank, n.F))]
    return *arrays, round(float(rng.uniform(1.5, 2.5)), 3), rng.standard_normal((*n.lead, n.F))


def special(rng):
    """B is zero at the start of training; and cases in which a wrong transpose has the right shape."""
    def arrays(lead, d_in, rank, d_out, B=1.0):
        x, dy = rng.standard_normal((*lead, d_in)), rng.standard_normal((*lead, d_out))
        A, weight = rng.standard_normal((d_in, rank)), rng.standard_normal((d_in, d_out))
        return x, weight, A, B * rng.standard_normal((rank, d_out)), 0.5, dy

    return [("b_zero_as", arrays((4,), 5, 2, 3, 0.0)),
            ("r_d_d", arrays((3, 2), 4, 4, 4)), ("rank_1_x", arrays((), 5, 1, 3))]


def by_layer(x, weight, A, B, s, dy):
    layer = LoRALinear(Linear(*weight.shape, bias=False), 1, alpha=s).astype(weight.dtype)
    layer.weight.data = weight
    layer.A, layer.B = type(layer.A)(A), type(layer.B)(B)
    layer(x)
    return layer.backward(dy), layer.A.grad, layer.B.grad


DU, DA, DB = "s * (drows @ B.T)", "rows.T @ du", "s * ((rows @ A).T @ drows)"
DX = "drows @ weight.T + du @ A.T"


EXERCISES = [
    Exercise(
        "21.1", minutes=15, lines=6,
        solution=lora_backward, reference=by_layer, inputs=draw_inputs, edges=special, outputs=("dx", "dA", "dB"),
        mistakes=(
            Mistake("LOR-2a", {"drows @ weight.T + du @ A.T": "drows @ weight.T"}),
            Mistake("LOR-2b", {"drows @ weight.T + du @ A.T": "du @ A.T"}),
            Mistake("LOR-6a", {"s * ((rows @ A).T @ drows)": "s * (np.outer((rows @ A).sum(0), drows.sum(0)))"}),
            Mistake("LOR-7", {
                "rows, drows = ": "dy *= s\n    rows, drows = ",
                "s * (drows @ B.T)": "drows @ B.T",
                "s * ((rows @ A).T @ drows)": "(rows @ A).T @ drows",
                "drows @ weight.T + du @ A.T": "drows @ weight.T / s + du @ A.T"}),
        ),
        alternatives={
            "through the product": {DU: "drows", DA: "s * (rows.T @ drows) @ B.T", "+ du @ A.T": "+ s * du @ B.T @ A.T",
                                    DB: "s * A.T @ (rows.T @ drows)"},
            "one matrix for dx": {DX: "drows @ (weight + s * A @ B).T"},
            "einsum": {DA: 'np.einsum("ni,nr->ir", rows, du)'}}),
]
