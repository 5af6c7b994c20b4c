"""Muon and what belongs to it: orthogonal steps, several optimizers as one, and which parameters each of them gets."""

import math

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.training import optimizers
from numpy_transformer.training.muon import orthogonalize

V, T = 11, 7


def language_model(width=12, layers=2, seed=0, **settings):
    return nt.CausalLanguageModel(V, width, 2, layers, max_len=T, rng=seed, **settings)


def batch(n):
    ids = np.random.default_rng([3, n]).integers(1, V, (5, T + 1))
    return ids[:, :-1], ids[:, 1:]


def singular_values(matrix):
    return np.linalg.svd(matrix.astype(np.float64), compute_uv=False)


@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (3, 3), (1, 6), (6, 1)])
def test_an_orthogonal_matrix_has_singular_values_near_one_and_the_same_singular_vectors(shape):
    G = np.random.default_rng(1).standard_normal(shape)
    U, values, Vt = np.linalg.svd(G, full_matrices=False)
    X = orthogonalize(G)
    assert X.shape == shape and 0.68 < singular_values(X).min() and singular_values(X).max() < 1.21
    inside = U.T @ X @ Vt.T                                 # diagonal
    np.testing.assert_allclose(inside, np.diag(np.diag(inside)), atol=1e-10)
    np.testing.assert_allclose(orthogonalize(G.T), X.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1.0, 1e18])
def test_the_size_of_a_float32_gradient_does_not_matter(size):
    G = np.random.default_rng(2).standard_normal((6, 9)).astype(np.float32)
    X = orthogonalize(np.float32(size) * G)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X, orthogonalize(G), rtol=2e-3, atol=2e-4)


def test_a_gradient_of_zeros_gives_no_step_and_one_that_is_not_finite_is_not_hidden():
    assert (orthogonalize(np.zeros((3, 4))) == 0).all()
    with np.errstate(invalid="ignore"):
        assert np.isnan(orthogonalize(np.array([[1.0, np.nan], [2.0, 3.0]]))).all()


def test_large_parameters_and_those_in_one_buffer_take_the_same_steps(monkeypatch):
    def train(large):
        monkeypatch.setattr(optimizers, "LARGE", large)
        rng = np.random.default_rng(3)
        parameters = [nt.Parameter(rng.standard_normal(shape)) for shape in ((4, 6), (6, 4), (4, 6), (5, 5))]
        optimizer = nt.Muon(parameters, 0.1, 0.7, weight_decay=0.1)
        for _ in range(3):
            for p in parameters:
                p.grad = rng.standard_normal(p.data.shape)
            optimizer.step()
        return parameters, len(optimizer.buffers)

    (apart, buffers), (together, fewer) = train(1), train(10 ** 6)
    assert (buffers, fewer) == (4, 3)                       # matrices of one shape lie in one buffer
    for p, q in zip(apart, together, strict=True):
        np.testing.assert_array_equal(p.data, q.data)


@pytest.mark.parametrize("make, sentence", [
    (lambda p, v: nt.Muon([p, v]), r"shape \(4,\); give it to AdamW"),
    (lambda p, v: nt.Muon([p], momentum=1.0), r"momentum = 1.0"),
    (lambda p, v: nt.Muon([p], weight_decay=-0.1), "weight_decay = -0.1"),
    (lambda p, v: nt.CombinedOptimizer([]), "at least one"),
    (lambda p, v: nt.CombinedOptimizer([nt.SGD([p], 0.1), nt.SGD([p, v], 0.1)]), "two of the optimizers hold the same"),
    (lambda p, v: nt.CombinedOptimizer([nt.SGD([p], 0.0), nt.SGD([v], 0.1)]), "the first optimizer has lr = 0.0"),
    (lambda p, v: nt.muon_with_adamw(nt.Linear(3, 4)), "Linear has no Linear in a list `blocks`")])
def test_wrong_arguments_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(nt.Parameter(np.ones((2, 3))), nt.Parameter(np.ones(4)))


def names(model, chosen):
    known = {id(p): name for name, p in model.named_parameters()}
    return {known[id(p)] for p in chosen}


def test_the_linear_weights_are_those_of_linears_and_the_hidden_ones_lie_in_blocks():
    tied, untied = language_model(layers=1), language_model(layers=1, tie_weights=False)
    inside = {f"decoder.blocks.0.{name}.weight" for name in (
        "attention.query", "attention.key", "attention.value", "attention.output", "feed_forward.up", "feed_forward.down")}
    for model, more in ((tied, set()), (untied, {"output.weight"})):
        assert names(model, nt.hidden_weights(model)) == inside
        assert names(model, nt.linear_weights(model)) == inside | more
    classifier = nt.SequenceClassifier(V, 12, 2, 1, hidden=5, rng=0)
    assert {name.split(".")[0] for name in names(classifier, nt.linear_weights(classifier))} == {"encoder", "hidden", "output"}
    assert len(nt.hidden_weights(classifier)) == 6
    nt.add_lora(tied, rank=2, targets=("query",))
    assert names(tied, nt.hidden_weights(tied)) == {f"decoder.blocks.0.attention.query.{letter}" for letter in "AB"}


def test_muon_with_adamw_holds_every_parameter_once_and_decays_the_weights_of_linears():
    model = language_model(tie_weights=False)
    muon, adamw = nt.muon_with_adamw(model, 0.02, adam_lr=0.004, weight_decay=0.3).optimizers
    assert names(model, muon.parameters) == names(model, nt.hidden_weights(model)) and muon.weight_decay == 0.3
    assert names(model, adamw.parameters) == {name for name, _ in model.named_parameters()} - names(model, muon.parameters)
    assert names(model, adamw.decay) == {"output.weight"}


def test_a_schedule_sets_the_rate_of_the_first_and_the_others_follow():
    optimizer = nt.muon_with_adamw(language_model(), 0.02, adam_lr=0.004)
    schedule = nt.CosineSchedule(optimizer, 0.06, 0.0, 2, 10)
    for n, lr in ((1, 0.03), (2, 0.06), (6, 0.03), (10, 0.0)):
        schedule.go_to(n)
        np.testing.assert_allclose([optimizer.lr, *(part.lr for part in optimizer.optimizers)], [lr, lr, lr / 5], atol=1e-15)


def trainer(make):
    model = language_model()
    optimizer = make(model)
    schedule = nt.WSDSchedule(optimizer, 0.02, 0.002, 2, 3, 9)
    return nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, schedule, clip=1.0, workers=1)


def test_a_run_with_muon_continues_from_its_checkpoint_bit_for_bit(tmp_path):
    whole, first = trainer(nt.muon_with_adamw), trainer(nt.muon_with_adamw)
    whole.fit(batch, steps=9)
    first.fit(batch, steps=4)
    first.save(tmp_path / "run.npz")
    second = trainer(nt.muon_with_adamw)
    second.load(tmp_path / "run.npz")
    assert second.optimizer.t == 4 and all(part.t == 4 for part in second.optimizer.optimizers)
    second.fit(batch, steps=5)
    assert second.history == whole.history
    for name, array in whole.model.state_dict().items():
        np.testing.assert_array_equal(second.model.state_dict()[name], array, err_msg=name)


def test_a_checkpoint_of_other_optimizers_is_refused_and_changes_nothing(tmp_path):
    def two_adamw(model):
        hidden = nt.hidden_weights(model)
        others = [p for p in model.parameters() if not any(p is one for one in hidden)]
        return nt.CombinedOptimizer([nt.AdamW(hidden), nt.AdamW(others)])

    run = trainer(nt.muon_with_adamw)
    run.fit(batch, steps=2)
    run.save(tmp_path / "run.npz")
    for make, said in ((two_adamw, "optimizer/m/"),
                       (lambda model: nt.AdamW(model.parameters()), "optimizer: CombinedOptimizer")):
        other = trainer(make)
        before = other.model.state_dict()
        with pytest.raises(ValueError, match=said):
            other.load(tmp_path / "run.npz")
        assert all((array == before[name]).all() for name, array in other.model.state_dict().items()) and other.steps == 0


def test_a_combined_optimizer_learns_and_shows_itself():
    run = trainer(nt.muon_with_adamw)
    assert repr(run.optimizer) == f"CombinedOptimizer(lr=0.01, {run.model.num_parameters():,} parameters, step 0)"
    ids = batch(0)
    losses = [row["loss"] for row in run.fit(lambda n: ids, steps=9)]
    assert losses[-1] < losses[0] - 0.15


@pytest.mark.parametrize("warmup, decay, steps", [(-1, 2, 9), (2, 0, 9), (5, 5, 9)])
def test_phases_that_do_not_fit_are_refused(warmup, decay, steps):
    with pytest.raises(ValueError, match=f"warmup = {warmup} and decay = {decay} must fit into steps = {steps}"):
        nt.WSDSchedule(nt.SGD([nt.Parameter(np.zeros(1))], 0.1), 0.1, 0.0, warmup, decay, steps)


def test_the_phases_of_wsd_and_that_more_steps_change_only_the_end():
    def rates(steps):
        schedule = nt.WSDSchedule(nt.SGD([nt.Parameter(np.zeros(1))], 0.1), 1.0, 0.2, 4, 5, steps)
        return [schedule.rate(n) for n in range(1, steps + 3)]

    np.testing.assert_allclose(rates(12), [0.25, 0.5, 0.75, *[1] * 4, 0.84, 0.68, 0.52, 0.36, 0.2, 0.2, 0.2])
    assert rates(12)[:7] == rates(40)[:7] and rates(40)[30] == 1
    schedule = nt.WSDSchedule(nt.SGD([nt.Parameter(np.zeros(1))], 0.1), 1.0, 0.2, 0, 5, 9)
    assert math.isclose(schedule.rate(1), 1.0)              # no warm-up


def test_a_model_of_which_only_matrices_in_blocks_are_trained_is_for_muon_alone():
    model = nt.add_lora(language_model(), 2, rng=0)
    with pytest.raises(ValueError, match=r"nothing for AdamW; use nt.Muon\(nt.hidden_weights\(model\)\)"):
        nt.muon_with_adamw(model)
    assert len(nt.Muon(nt.hidden_weights(model)).parameters) == 8       # A and B of two Linears in two blocks
