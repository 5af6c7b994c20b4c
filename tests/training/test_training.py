"""Optimizers and schedules against scalar references, clipping, and the loop."""

import ctypes
import math
import os
from pathlib import Path

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer import threads


def scalar_adam(w, gradients, lr, beta1, beta2, eps, decay=0.0):
    m = v = 0.0
    for t, g in enumerate(gradients, 1):
        w -= lr * decay * w
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        w -= lr * (m / (1 - beta1 ** t)) / (math.sqrt(v / (1 - beta2 ** t)) + eps)
    return w


def scalar_sgd(w, gradients, lr, momentum):
    velocity = 0.0
    for g in gradients:
        velocity = momentum * velocity + g
        w -= lr * velocity
    return w


@pytest.mark.parametrize("build, reference", [
    (lambda ps: nt.SGD(ps, 0.1), lambda w, g: scalar_sgd(w, g, 0.1, 0.0)),
    (lambda ps: nt.SGD(ps, 0.1, 0.9), lambda w, g: scalar_sgd(w, g, 0.1, 0.9)),
    (lambda ps: nt.Adam(ps, 0.02, (0.8, 0.95), 1e-3), lambda w, g: scalar_adam(w, g, 0.02, 0.8, 0.95, 1e-3)),
    (lambda ps: nt.AdamW(ps, 0.02, (0.8, 0.95), 1e-3, 0.3), lambda w, g: scalar_adam(w, g, 0.02, 0.8, 0.95, 1e-3, 0.3)),
], ids=["sgd", "momentum", "adam", "adamw"])
def test_optimizers_equal_a_scalar_reference_over_seven_steps(build, reference):
    """Two tensors: a clock that ticks once a tensor instead of once a step would show."""
    rng = np.random.default_rng(0)
    parameters = [nt.Parameter(rng.standard_normal(shape)) for shape in ((3, 2), (4,))]
    start = [p.data.copy() for p in parameters]
    gradients = [[rng.standard_normal(p.data.shape) * 10.0 ** rng.integers(-5, 2) for p in parameters]
                 for _ in range(7)]
    optimizer = build(parameters)
    for step in gradients:
        for p, g in zip(parameters, step):
            p.grad = g
        optimizer.step()
    for i, p in enumerate(parameters):
        for index in np.ndindex(p.data.shape):
            assert p.data[index] == pytest.approx(
                reference(start[i][index], [g[i][index] for g in gradients]), rel=1e-12)


@pytest.mark.parametrize("decay, expected", [(None, (True, True)), (lambda p: p.data.ndim > 1, (True, False)),
                                             ("list", (False, True))])
def test_only_the_chosen_parameters_decay(decay, expected):
    parameters = [nt.Parameter(np.ones((2, 2))), nt.Parameter(np.ones(3))]
    nt.AdamW(parameters, 0.1, weight_decay=0.5, decay=parameters[1:] if decay == "list" else decay).step()
    assert tuple(bool((p.data == 0.95).all()) for p in parameters) == expected


def test_state_keeps_the_dtype_and_a_tied_parameter_is_updated_once():
    p = nt.Parameter(np.ones(3, np.float32))
    p.grad = np.ones(3)
    optimizer = nt.Adam([p, p], lr=0.1)
    optimizer.step()
    assert optimizer.m[0].dtype == optimizer.v[0].dtype == p.data.dtype == np.float32
    np.testing.assert_allclose(p.data, 0.9, rtol=1e-5)


def test_noam_counts_steps_and_peaks_at_the_end_of_the_warm_up():
    optimizer = nt.Adam([nt.Parameter(np.ones(2)), nt.Parameter(np.ones(3))])
    schedule = nt.NoamSchedule(optimizer, d_model=512, warmup=4, factor=2.0)
    rates = []
    for n in range(1, 11):
        schedule.step()
        rates.append(optimizer.lr)
        assert optimizer.lr == pytest.approx(2 * 512 ** -0.5 * min(n ** -0.5, n * 4 ** -1.5), rel=1e-14)
    assert max(rates) == rates[3]


def test_cosine_warms_up_falls_and_stays():
    optimizer = nt.SGD([nt.Parameter(np.ones(2))], 9.0)
    schedule = nt.CosineSchedule(optimizer, lr=1.0, min_lr=0.1, warmup=5, steps=25)
    assert optimizer.lr == 0.2
    rates = []
    for _ in range(30):
        schedule.step()
        rates.append(optimizer.lr)
    np.testing.assert_allclose(rates[:5], [0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[14] == pytest.approx(0.55) and rates[24] == pytest.approx(0.1) and rates[29] == pytest.approx(0.1)
    assert all(a > b for a, b in zip(rates[4:24], rates[5:25]))


def test_clipping_scales_all_gradients_together():
    parameters = [nt.Parameter(np.zeros((2, 2))), nt.Parameter(np.zeros(3))]
    for p, value in zip(parameters, (3.0, 4.0)):
        p.grad = np.full(p.data.shape, value)
    norm = math.sqrt(4 * 9 + 3 * 16)
    assert nt.clip_grad_norm(parameters, 100.0) == pytest.approx(norm)
    assert (parameters[0].grad == 3).all()
    assert nt.clip_grad_norm(parameters + parameters, 1.0) == pytest.approx(norm)
    np.testing.assert_allclose(parameters[0].grad, 3 / norm)
    np.testing.assert_allclose(parameters[1].grad, 4 / norm)
    parameters[0].grad[0, 0] = np.inf
    assert nt.clip_grad_norm(parameters, 1.0) == math.inf and np.isfinite(parameters[1].grad).all()


@pytest.mark.parametrize("build", [
    lambda p: nt.Adam([]), lambda p: nt.Adam(p, -1.0), lambda p: nt.Adam(p, betas=(0.9, 1.0)),
    lambda p: nt.SGD(p, 0.1, 1.0), lambda p: nt.clip_grad_norm(p, 0.0), lambda p: nt.NoamSchedule(nt.Adam(p), 512, 0),
    lambda p: nt.NoamSchedule(nt.Adam(p), 0, 10), lambda p: nt.CosineSchedule(nt.Adam(p), 1.0, 0.1, 10, 10),
    lambda p: nt.SGD(p, math.nan)])
def test_rates_outside_their_range_are_refused(build):
    with pytest.raises(ValueError):
        build([nt.Parameter(np.ones(2))])


def model_and_batches(dropout=0.1):
    model = nt.CausalLanguageModel(7, 12, 2, 1, max_len=8, dropout=dropout, rng=0)
    pattern = np.tile(np.arange(6), 4)

    def batches(step):
        starts = np.random.default_rng([0, step]).integers(0, 6, 5)
        window = pattern[starts[:, None] + np.arange(8)]
        return (window[:, :-1],), window[:, 1:]

    return model, batches


def test_fit_learns_a_pattern_and_keeps_rows(capsys):
    model, batches = model_and_batches()
    optimizer = nt.Adam(model.parameters(), 1e-2)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, nt.CosineSchedule(optimizer, 1e-2, 1e-3, 5, 60),
                         clip=1.0)
    history = trainer.fit(batches, 60, validation=lambda: 0.5, every=25)
    assert history[0]["loss"] > 1.5 and history[-1]["loss"] < 0.5
    assert [row["step"] for row in history] == list(range(1, 61))
    assert [row["step"] for row in history if "validation" in row] == [25, 50, 60]
    assert history[-1]["lr"] == pytest.approx(1e-3) and history[0]["norm"] > 0
    output = capsys.readouterr()
    assert "step    25" in output.out and "train: 6/60" in output.err and "\x1b" not in output.err + output.out


def test_a_trainer_step_equals_the_five_lines_of_a_training_step():
    """Against a loop written out: zeroed gradients, a clip that bites, the schedule before the optimizer."""
    model, batches = model_and_batches(dropout=0.0)
    optimizer = nt.SGD(model.parameters(), 1.0, momentum=0.5)
    schedule = nt.CosineSchedule(optimizer, 1.0, 0.1, 3, 9)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, schedule, clip=0.1)
    twin, _ = model_and_batches(dropout=0.0)
    criterion, velocities = nt.CrossEntropyLoss(), [np.zeros_like(p.data) for p in twin.parameters()]
    model(*batches(5)[0])                                   # a forward pass without a backward pass
    trainer.fit(batches, 6)
    for n in range(1, 7):
        inputs, targets = batches(n - 1)
        twin.zero_grad()
        loss = criterion(twin(*inputs), targets)
        twin.backward(criterion.backward())
        norm = math.sqrt(sum(float((p.grad ** 2).sum()) for p in twin.parameters()))
        lr = n / 3 if n <= 3 else 0.1 + 0.9 * (1 + math.cos(math.pi * (n - 3) / 6)) / 2
        for p, v in zip(twin.parameters(), velocities):
            v[...] = 0.5 * v + p.grad * min(1, 0.1 / norm)
            p.data -= lr * v
        row = trainer.history[n - 1]
        assert norm > 0.1 and row["loss"] == pytest.approx(float(loss), rel=1e-4)
        assert row["norm"] == pytest.approx(norm, rel=1e-3) and row["lr"] == pytest.approx(lr)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(p.data, q.data, atol=1e-5)
    assert not any(part.__dict__.get("_saved") for _, part in model.named_modules())


def test_fit_goes_on_where_it_stopped_and_prints_the_mean_loss(capsys):
    model, batches = model_and_batches()
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), nt.Adam(model.parameters()))
    trainer.fit(batches, 5)
    history = trainer.fit(batches, 7, validation=lambda: 1.25, every=4)
    assert [row["step"] for row in history if "validation" in row] == [8, 12]
    mean = np.mean([row["loss"] for row in history[8:12]])
    assert f"step    12   training loss {mean:.3f}   validation loss 1.250" in capsys.readouterr().out


def test_a_loss_that_overflows_while_all_is_finite_names_the_largest():
    model, batches = model_and_batches(dropout=0.0)
    model.decoder.norm.gamma.data[3] = -3e38
    model.embedding.weight.data *= 1e3
    match = r"every parameter is still finite, and the largest is the value of decoder\.norm\.gamma with 3\.0e\+38"
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=match):
        nt.Trainer(model, nt.CrossEntropyLoss(), nt.Adam(model.parameters())).fit(batches, 1)


def test_the_norm_of_large_finite_gradients_is_finite():
    p = nt.Parameter(np.zeros(4, np.float32))
    p.grad = np.full(4, 1e25)
    with np.errstate(over="ignore"):
        assert nt.clip_grad_norm([p], 1.0) == pytest.approx(2e25)
    np.testing.assert_allclose(p.grad, 0.5)


def test_blas_threads_are_set():
    libraries = [ctypes.CDLL(str(path)) for path in Path(np.__file__).parent.parent.glob("numpy.libs/*openblas*")]
    found = [getattr(library, name.format("get")) for library in libraries for name in threads.NAMES
             if hasattr(library, name.format("get"))]
    if not found:
        pytest.skip("NumPy came without an OpenBLAS of its own")
    most = min(2, os.cpu_count())
    try:
        assert threads.set_blas_threads(most) == 1 and found[0]() == most
    finally:
        assert threads.set_blas_threads(1) == most
    assert found[0]() == 1


def test_optimizers_take_parameters():
    with pytest.raises(TypeError, match="pass model.parameters"):
        nt.SGD([np.ones(3)], 0.1)
    with pytest.raises(ValueError, match="does not hold"):
        nt.AdamW([nt.Parameter(np.ones(3))], decay=[nt.Parameter(np.ones(3))])


def test_the_same_seed_trains_the_same_model():
    losses = []
    for _ in range(2):
        model, batches = model_and_batches()
        history = nt.Trainer(model, nt.CrossEntropyLoss(), nt.Adam(model.parameters())).fit(batches, 5)
        losses.append([row["loss"] for row in history])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("spoil, match", [
    (lambda model: model.decoder.blocks[0].norm1.gamma,
     r"step 3: the loss is nan.*value of decoder\.blocks\.0\.norm1\.gamma"),
    (lambda model: model.embedding.weight, r"step 3: the loss is nan.*value of embedding\.weight"),
])
def test_a_loss_that_is_not_finite_stops_and_names_the_first_bad_parameter(spoil, match):
    model, batches = model_and_batches(dropout=0.0)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), nt.Adam(model.parameters()))
    trainer.fit(batches, 2)
    spoil(model).data[...] = np.nan
    model.decoder.norm.gamma.data[...] = np.nan             # bad too, but further on
    before = model.state_dict()
    with pytest.raises(ValueError, match=match):
        trainer.fit(batches, 2)
    assert trainer.steps == 2
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_gradient_that_is_not_finite_stops_before_the_update():
    class Bad(nt.CrossEntropyLoss):
        def backward(self, dy=1.0):
            dz = super().backward(dy)
            dz[0, 2, 3] = np.inf
            return dz

    model, batches = model_and_batches(dropout=0.0)
    trainer = nt.Trainer(model, Bad(), nt.Adam(model.parameters()), clip=1.0)
    before = model.state_dict()
    with (np.errstate(invalid="ignore"),
          pytest.raises(ValueError, match="step 1: the gradient is .* gradient of decoder.norm.beta")):
        trainer.fit(batches, 1)
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
