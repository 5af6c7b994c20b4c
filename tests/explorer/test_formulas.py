"""Every formula gives what its component computes: each entry of each output and of each gradient."""

import numpy as np
import pytest
from helpers.formulas import LEAVES, Op, run

from numpy_transformer import layers
from numpy_transformer.explorer.formulas import formulas_of, spell, spells, writers as room
from numpy_transformer.explorer.formulas.evaluator import Spelling
from numpy_transformer.explorer.switches import KeepHeads, PassThrough, WithoutResidual
from numpy_transformer.layers.heads import merge_heads, split_heads


def check(op, arrays, entries=None, rng=None):
    """Compares `entries` random entries of each array that a formula gives (None: all) with the arrays."""
    formulas = formulas_of(op)
    wanted = {"y"} | {name for name in arrays if name.startswith("d") and name != "dy"}
    assert set(formulas) == wanted
    for target, formula in formulas.items():
        expected = arrays[target]
        spelling = Spelling(formula, {name: arrays[name] for name in arrays if not name.startswith("d") or name == "dy"})
        indices = list(np.ndindex(expected.shape))
        if entries is not None and len(indices) > entries:
            indices = [indices[i] for i in rng.choice(len(indices), entries, replace=False)]
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
        for index in indices:
            np.testing.assert_allclose(spelling.value(index), expected[index], rtol=0, atol=1e-12 * largest,
                                       err_msg=f"{target}{list(index)}: {formula.text}")


@pytest.mark.parametrize("sample", LEAVES, ids=lambda sample: sample.name)
def test_formulas_of_every_component(sample):
    op, arrays = run(*sample.make())
    check(op, arrays, 4, np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("sample", LEAVES, ids=lambda sample: sample.name)
def test_every_entry_of_every_component(sample):
    op, arrays = run(*sample.make(seed=1), seed=1)
    check(op, arrays)


def test_masks_and_positions_that_the_samples_do_not_have():
    rng = np.random.default_rng(5)
    x, mask = rng.standard_normal((2, 3, 4, 6)), rng.random((4, 6)) < 0.6
    mask[1] = False
    scores = np.where(mask, x, -np.inf)                         # row 1 may attend to nothing
    ids = np.array([[0, 3, 3], [1, 0, 3]])
    hidden = np.array([[True, False, True, True], [False] * 4])
    cases = [
        (layers.Softmax(), (scores,), {}),
        (layers.Softmax(), (1000 * x,), {}),                    # exp would overflow
        (layers.LogSoftmax(), (1000 * x,), {}),
        (layers.AttentionMask(), (x, mask), {}),                # 2-D
        (layers.AttentionMask(), (x[0], mask[None, None]), {}),         # a 4-D mask on scores without a batch axis
        (layers.AttentionMask(), (x,), {}),
        (layers.Linear(6, 2), (x[0, 0, 0],), {}),               # a single row
        (layers.MaskedMean(), (x[:, 0], hidden), {}),
        (layers.MaskedMean(), (x[:, 0],), {}),
        (layers.Embedding(4, 5, pad_id=3), (ids,), {}),
        (layers.LearnedPositionalEmbedding(9, 6), (x[0], 2), {}),
        (layers.LearnedPositionalEmbedding(9, 6), (x[:, 0],), {"positions": np.array([[0, 0, 3, 8], [1, 2, 2, 2]])}),
        (layers.LearnedPositionalEmbedding(9, 6), (x[:, 0],), {"positions": np.array([4, 4, 5, 0])}),
        (layers.SinusoidalPositionalEncoding(6, 9), (x[:, 0],), {"positions": np.array([[0, 0, 3, 8], [1, 2, 2, 2]])}),
        (layers.SinusoidalPositionalEncoding(5, 9), (x[:, 0, :, :5], 3), {}),
        (layers.RotaryEmbedding(6), (x,), {"positions": np.array([[0, 0, 3, 8], [1, 2, 2, 2]])}),
        (layers.RotaryEmbedding(6), (x,), {"positions": np.array([4, 4, 5, 0])}),
        (layers.CrossEntropyLoss(ignore_id=-1), (1000 * x[0], np.array([[0, -1, 2, 5], [-1] * 4, [1, 2, 3, -1]])), {}),
        (layers.CrossEntropyLoss(0.2), (x[0, 0, 0][None], np.array([4])), {}),
        (layers.BinaryCrossEntropyLoss(), (40 * x[0, 0], (x[0, 1] > 0).astype(int)), {}),
        (layers.FlashAttention(2), (x, x[:, :1, :3], x[:, :1, :3, :2]), {}),
        (layers.FlashAttention(2), (100 * x[0], x[1], x[0], mask[:, :4][None, None]), {}),
        (layers.FlashAttention(2, causal=True), (x[0, 0], x[1, 0], x[0, 1]), {}),
        (layers.FlashAttention(2, causal=True), (x, x + 1, x - 1, hidden[:, None, None]), {}),      # one row for all
    ]
    for module, inputs, named in cases:
        op, arrays = run(module, inputs, **named)
        check(op, arrays, 5, rng)


def attend(q, k, v, mask, scale):
    """Plain loops: scores, weights and output of attention, in which the query heads of a group share a key head."""
    H, T, d = q.shape
    S, group = k.shape[1], len(q) // len(k)
    scores = np.full((H, T, S), -np.inf)
    for h, t, j in np.ndindex(scores.shape):
        if mask[h, t, j]:
            scores[h, t, j] = scale * sum(q[h, t, c] * k[h // group, j, c] for c in range(d))
    return scores


@pytest.mark.parametrize("heads, scale", [(2, 0.5), (4, 0.5), (4, 1.0), (2, 0.3)])
def test_scores_and_weighted_sum(heads, scale):
    rng = np.random.default_rng(1)
    q, k, v = rng.standard_normal((heads, 3, 4)), rng.standard_normal((2, 5, 4)), rng.standard_normal((2, 5, 6))
    mask = rng.random((heads, 3, 5)) < 0.7
    y = attend(q, k, v, mask, scale)
    dy = rng.standard_normal(y.shape)
    dy_seen = np.where(mask, dy, 0)
    k_of_query = np.repeat(k, heads // 2, 0)
    dq = scale * np.einsum("htj,hjc->htc", dy_seen, k_of_query)
    dk = scale * np.einsum("htj,htc->hjc", dy_seen, q).reshape(2, -1, 5, 4).sum(1)
    op = Op(None, "scores", {"q": q, "k": k, "mask": mask}, {}, {"y": y}, {"scale": scale})
    check(op, {"q": q, "k": k, "mask": mask, "y": y, "dy": dy, "dq": dq, "dk": dk})

    changed = rng.standard_normal(y.shape)                      # a mask of scores that a component has changed
    hidden = np.where(mask, changed, -np.inf)
    check(Op(None, "mask", {"scores": changed, "mask": mask}, {}, {"y": hidden}),
          {"scores": changed, "mask": mask, "y": hidden, "dy": dy, "dscores": dy_seen})

    p = rng.random(y.shape)
    v_of_query = np.repeat(v, heads // 2, 0)
    y = np.einsum("htj,hje->hte", p, v_of_query)
    dy = rng.standard_normal(y.shape)
    dv = np.einsum("htj,hte->hje", p, dy).reshape(2, -1, 5, 6).sum(1)
    dp = np.einsum("hte,hje->htj", dy, v_of_query)
    check(Op(None, "weighted sum", {"p": p, "v": v}, {}, {"y": y}),
          {"p": p, "v": v, "y": y, "dy": dy, "dp": dp, "dv": dv})


@pytest.mark.parametrize("shape", [(2, 3, 4), (4,), (3, 4), (2, 1, 4), (1, 4), (), (1, 3, 1)])
def test_sums_and_products(shape):
    rng = np.random.default_rng(2)
    a, b, dy = rng.standard_normal((2, 3, 4)), rng.standard_normal(shape), rng.standard_normal((2, 3, 4))

    def to_b(gradient):
        """The sum over the axes along which b is stretched."""
        total = np.zeros((1,) * (3 - len(shape)) + shape)
        for index in np.ndindex(gradient.shape):
            total[tuple(min(i, n - 1) for i, n in zip(index, total.shape))] += gradient[index]
        return total.reshape(shape)

    check(Op(None, "add", {"a": a}, {"b": b}, {"y": a + b}),
          {"a": a, "b": b, "y": a + b, "dy": dy, "da": dy, "db": to_b(dy)})
    check(Op(None, "multiply", {"a": a, "b": b}, {}, {"y": a * b}),
          {"a": a, "b": b, "y": a * b, "dy": dy, "da": dy * b, "db": to_b(dy * a)})
    y = 0.5 * a - 3 * b
    check(Op(None, "combination", {"a": a, "b": b}, {}, {"y": y}, {"factor_a": 0.5, "factor_b": -3.0}),
          {"a": a, "b": b, "y": y, "dy": dy, "da": dy / 2, "db": to_b(-3 * dy)})
    check(Op(None, "sum", {"x": b}, {}, {"y": b.sum()}),
          {"x": b, "y": b.sum(), "dy": np.array(2.0), "dx": np.full(shape, 2.0)})


def test_a_product_of_two_stretched_arrays():
    rng = np.random.default_rng(8)
    a, b, dy = rng.standard_normal((2, 1, 4)), rng.standard_normal((3, 1)), rng.standard_normal((2, 3, 4))
    check(Op(None, "multiply", {"a": a, "b": b}, {}, {"y": a * b}),
          {"a": a, "b": b, "y": a * b, "dy": dy, "da": (dy * b).sum(1, keepdims=True),
           "db": (dy * a).sum(0).sum(-1, keepdims=True)})


@pytest.mark.parametrize("rearrange", [
    lambda x: split_heads(x, 2), lambda x: split_heads(x, 1), merge_heads, lambda x: x.swapaxes(-1, -2),
    lambda x: x.transpose(1, 2, 0), lambda x: x.reshape(6, 4), lambda x: x.reshape(2, 12), lambda x: x.ravel(),
    lambda x: x[:, None], lambda x: x.reshape(2, 3, 2, 2), lambda x: x.reshape(4, 6), lambda x: x[..., None],
], ids=["split", "split into one", "merge", "swap", "transpose", "flatten", "join", "ravel", "new axis", "unflatten",
        "other rows", "last axis"])
def test_rearranged_axes(rearrange):
    x = np.arange(24.0).reshape(2, 3, 4)
    y = rearrange(x)
    dy = -y                                                     # so the gradient of x is -x
    check(Op(None, "reshape", {"x": x}, {}, {"y": y}), {"x": x, "y": y, "dy": dy, "dx": -x})


def test_selected_rows():
    rng = np.random.default_rng(3)
    x, positions = rng.standard_normal((2, 5, 3)), np.array([[4, 0, 4], [1, 1, 2]])
    y = np.stack([x[b, positions[b]] for b in range(2)])
    dy = rng.standard_normal(y.shape)
    dx = np.zeros_like(x)
    for b, k in np.ndindex(positions.shape):
        dx[b, positions[b, k]] += dy[b, k]
    check(Op(None, "select", {"x": x, "positions": positions}, {}, {"y": y}),
          {"x": x, "positions": positions, "y": y, "dy": dy, "dx": dx})

    dx = np.zeros_like(x)
    dx[:, 2] = dy[:, 0]
    check(Op(None, "select", {"x": x}, {}, {"y": x[:, 2]}, {"axis": 1, "at": 2}),
          {"x": x, "y": x[:, 2], "dy": dy[:, 0], "dx": dx})


def test_what_takes_the_place_of_switched_off_parts():
    rng = np.random.default_rng(7)
    x, f = rng.standard_normal((2, 3, 2, 4)), rng.standard_normal((2, 3, 2, 4))
    for module, inputs in [(KeepHeads({1}), (x,)), (KeepHeads({0, 2}), (x,)), (PassThrough(), (x,)),
                           (WithoutResidual(), (x, f))]:
        check(*run(module, inputs), 20, rng)


def test_dropout_in_training():
    rng = np.random.default_rng(4)
    x, dy, scale = rng.standard_normal((3, 2, 5)), rng.standard_normal((3, 2, 5)), rng.integers(0, 2, (3, 2, 5)) / 0.7
    op = Op(layers.Dropout(0.3), "component", {"x": x, "scale": scale}, {}, {"y": x * scale})
    formulas = formulas_of(op)
    arrays = {"x": x, "scale": scale, "y": x * scale, "dy": dy}
    assert spell(formulas["y"], arrays, (1, 1, 3))["value"] == (x * scale)[1, 1, 3]
    assert spell(formulas["dx"], arrays, (2, 0, 1))["value"] == (dy * scale)[2, 0, 1]


class ForgetsSquare(layers.LayerNorm):
    """A reader's mistake: the path through the variance is missing."""

    def backward(self, dy):
        x_hat, inverse_std = self.recall()
        g = self.gamma.data * dy
        return (g - g.mean(-1, keepdims=True)) * inverse_std


def test_a_subclass_keeps_the_formulas_of_its_base():
    x = np.random.default_rng(6).standard_normal((2, 6))
    op, arrays = run(ForgetsSquare(6), (x,))
    right, expected = run(layers.LayerNorm(6), (x,))
    spelled = spell(formulas_of(op)["dx"], arrays, (1, 3))
    assert spelled["value"] == pytest.approx(expected["dx"][1, 3], rel=1e-12)
    assert abs(spelled["value"] - arrays["dx"][1, 3]) > 1e-3


def test_a_class_of_the_readers_own_has_no_formulas():
    class Own:
        def forward(self, x):
            return 2 * x

        def backward(self, dy):
            return 2 * dy

    assert formulas_of(Op(Own(), "component", {"x": np.ones(3)}, {}, {"y": np.ones(3)})) == {}
    assert formulas_of(Op(None, "own code", {"x": np.ones(3)}, {}, {"y": np.ones(3)})) == {}


class Renamed(layers.Linear):
    """A variant whose input has another name: formulas that read "x" do not apply."""

    def forward(self, tokens):
        return super().forward(tokens)


def test_formulas_without_their_arrays_are_left_out():
    op, arrays = run(Renamed(3, 2), (np.ones((4, 3)),))
    assert set(formulas_of(op)) == {"dbias"}


def test_a_class_of_the_readers_own_can_bring_formulas(monkeypatch):
    monkeypatch.setattr(room, "WRITERS", dict(room.WRITERS))

    class Double:
        factor = 2.0

        def forward(self, x):
            return 2 * x

        def backward(self, dy):
            return 2 * dy

    @spells(Double)
    def double(op):
        op.name(factor=op.module.factor)
        yield "y[...] = factor * x[...]"
        yield "dx[...] = factor * dy[...]"

    x, dy = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    check(Op(Double(), "component", {"x": x}, {}, {"y": 2 * x}), {"x": x, "y": 2 * x, "dy": dy, "dx": 2 * dy})
