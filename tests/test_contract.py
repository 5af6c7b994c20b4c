"""One suite over every component: what the one law promises, each component keeps."""

import copy

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.checks.components import SAMPLES, find
from numpy_transformer.checks.gradcheck import Draws

learning = pytest.mark.parametrize("sample", [s for s in SAMPLES if s.make()[0].parameters()], ids=lambda s: s.name)
every_component = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


def make(sample, dtype=np.float64, seed=0):
    """Module and inputs in dtype, all parameters random."""
    module, inputs = sample.make(seed)
    rng = np.random.default_rng([seed, 3])
    for p in module.astype(dtype).parameters():
        p.data = rng.standard_normal(p.data.shape).astype(dtype) / np.sqrt(p.data.shape[0] if p.data.ndim > 1 else 1)
    return module, tuple(x.astype(dtype) if is_float(x) else x for x in inputs)


def is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def upstream(y, seed=5):
    return np.random.default_rng(seed).standard_normal(np.shape(y)).astype(y.dtype) if np.ndim(y) else 0.7


def pair(module, inputs, seed=5):
    """One forward and its backward: output, input gradients as a tuple, parameter gradients of this pair alone."""
    module.zero_grad()
    y = module(*inputs)
    dx = module.backward(upstream(y, seed))
    return y, as_tuple(dx), [p.grad.copy() for p in module.parameters()]


def as_tuple(dx):
    return () if dx is None else dx if isinstance(dx, tuple) else (dx,)


def memories(module):
    return [name for name, part in module.named_modules() if part.__dict__.get("_memory")]


def close(a, b, tolerance=1e-11):
    a, b = np.asarray(a), np.asarray(b)
    finite = np.isfinite(b)
    assert a.shape == b.shape and not np.isnan(b).any()
    np.testing.assert_array_equal(a[~finite], b[~finite])
    assert np.linalg.norm(a[finite] - b[finite]) <= tolerance * max(np.linalg.norm(b[finite]), 1e-6)


@every_component
def test_gradient(sample):
    module, inputs = sample.make()
    report = nt.gradcheck(module, *inputs, directions=sample.directions, name=sample.name)
    assert report.ok, str(report)
    assert report.worst("central") <= 1e-6 and report.worst("complex") <= 1e-12
    floats = sum(map(is_float, inputs))
    assert len(report.rows) == floats + len(module.parameters()) > 0
    assert not all(row.zero for row in report.rows)


@learning
def test_two_backwards_double_the_gradients(sample):
    module, inputs = make(sample)
    draws = Draws(module)
    _, _, once = pair(module, inputs)
    draws.restore(module)
    module.backward(upstream(module(*inputs)))
    for p, g in zip(module.parameters(), once, strict=True):
        close(p.grad, 2 * g)


@every_component
def test_arguments_are_not_changed(sample):
    module, inputs = make(sample)
    before = copy.deepcopy(inputs)
    for x in inputs:
        if isinstance(x, np.ndarray):
            x.flags.writeable = False               # a write in place would raise
    y = module(*inputs)
    dy = np.array(upstream(y))
    dy.flags.writeable = False
    start = dy.copy()
    module.backward(dy)
    np.testing.assert_array_equal(dy, start)
    for x, b in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(x, b)


@every_component
def test_earlier_results_do_not_change_later(sample):
    module, inputs = make(sample)
    y, dx, _ = pair(module, inputs)
    kept = copy.deepcopy((y, dx))
    pair(module, make(sample, seed=1)[1], seed=6)
    for now, then in zip((y, *dx), (kept[0], *kept[1]), strict=True):
        np.testing.assert_array_equal(now, then)


@every_component
def test_nothing_is_remembered_after_backward_nor_in_eval(sample):
    module, inputs = make(sample)
    y = module(*inputs)
    assert memories(module)
    module.backward(upstream(y))
    assert memories(module) == []
    module.eval()(*inputs)
    assert memories(module) == []
    y = module.eval(remember=True)(*inputs)
    assert memories(module)
    module.backward(upstream(y))
    assert memories(module) == []


@every_component
def test_forget_clears_forwards_that_nobody_answered(sample):
    module, inputs = make(sample)
    draws = Draws(module)
    _, dx, grads = pair(module, inputs)
    for seed in range(10):
        module(*make(sample, seed=seed)[1])
    assert memories(module)
    module.forget()
    assert memories(module) == []
    draws.restore(module)
    _, dx_again, grads_again = pair(module, inputs)
    for a, b in zip((*dx, *grads), (*dx_again, *grads_again), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(RuntimeError, match="nothing to recall"):
        module.backward(upstream(module.eval()(*inputs)))


@every_component
def test_eval_is_deterministic(sample):
    module, inputs = make(sample)
    module.eval()
    np.testing.assert_array_equal(module(*inputs), module(*inputs))


@every_component
def test_float32_stays_float32(sample):
    module, inputs = make(sample, np.float32)
    y, dx, grads = pair(module, inputs)
    assert y.dtype == np.float32
    assert [d.dtype for d in dx] == [np.float32] * sum(map(is_float, inputs))
    assert all(g.dtype == np.float32 for g in grads)
    assert module.eval()(*inputs).dtype == np.float32


@every_component
def test_float32_agrees_with_float64(sample):
    """A kernel that is right only in float64 would pass every check above."""
    module, inputs = make(sample, np.float32)
    double, _ = make(sample)
    for p, q in zip(double.parameters(), module.parameters(), strict=True):
        p.data = q.data
    y = double.eval()(*[x.astype(np.float64) if is_float(x) else x for x in inputs])
    close(module.eval()(*inputs), y, 2e-5)


@learning
def test_state_dict_round_trip(sample):
    module, inputs = make(sample)
    other, _ = make(sample, seed=1)
    y, z = module.eval()(*inputs), other.eval()(*inputs)
    assert not np.array_equal(y, z)
    other.load_state_dict(module.state_dict())
    np.testing.assert_array_equal(other(*inputs), y)


@every_component
def test_used_twice_in_one_forward(sample):
    """The two memories are answered last in, first out."""
    module, first = make(sample)
    second = make(sample, seed=1)[1]
    draws = Draws(module)
    _, dx1, grads1 = pair(module, first)
    _, dx2, grads2 = pair(module, second)
    draws.restore(module)
    module.zero_grad()
    y1, y2 = module(*first), module(*second)
    again2, again1 = module.backward(upstream(y2)), module.backward(upstream(y1))
    for a, b in zip((*as_tuple(again1), *as_tuple(again2)), (*dx1, *dx2), strict=True):
        np.testing.assert_array_equal(a, b)
    for p, g1, g2 in zip(module.parameters(), grads1, grads2, strict=True):
        close(p.grad, g1 + g2)


def doubled(x):
    return np.concatenate([x, x]) if isinstance(x, np.ndarray) and len(x) == 3 else x


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.loss], ids=lambda sample: sample.name)
def test_a_doubled_batch_has_the_same_mean_loss(sample):
    criterion, (logits, targets) = make(sample)
    loss, dz = criterion(logits, targets), criterion.backward()
    loss2, dz2 = criterion(doubled(logits), doubled(targets)), criterion.backward()
    close(loss2, loss)
    close(2 * dz2, doubled(dz))


@pytest.mark.parametrize("sample", find(["CausalLanguageModel", "EncoderDecoder", "make_model"]), ids=lambda s: s.name)
def test_a_doubled_batch_has_the_same_gradients(sample):
    """Anything divided by B, or by B T a second time, comes apart here."""
    module, inputs = make(sample)
    module.eval(remember=True)
    criterion = nt.CrossEntropyLoss(label_smoothing=0.1, ignore_id=0)
    targets = np.random.default_rng(0).integers(0, 11, module(*inputs).shape[:-1])
    gradients = []
    for batch, answer in ((inputs, targets), (tuple(map(doubled, inputs)), doubled(targets))):
        module.forget()
        module.zero_grad()
        criterion(module(*batch), answer)
        module.backward(criterion.backward())
        gradients.append([p.grad.copy() for p in module.parameters()])
    largest = max(np.linalg.norm(g) for g in gradients[0])
    for g, g2 in zip(*gradients, strict=True):
        assert np.linalg.norm(g) > 0 and np.linalg.norm(g - g2) <= 1e-12 * largest


def test_every_public_component_is_in_the_table():
    tested = {type(sample.make()[0]).__name__ for sample in SAMPLES}
    public = {name for name, value in vars(nt).items()
              if isinstance(value, type) and issubclass(value, nt.Module) and value is not nt.Module}
    assert public == tested
