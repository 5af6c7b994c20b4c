"""Training with frozen parameters, LoRA among them: optimizers, clipping, the Trainer and its checkpoints."""

import copy
import sys

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.training.checkpoint import read_checkpoint, weights
from numpy_transformer.training.workers import ProcessWorker, ThreadWorker

V, T = 7, 6
LINUX = sys.platform == "linux"


def batch(n):
    ids = np.random.default_rng([3, n]).integers(0, V, (4, T + 1))
    return ids[:, :-1], ids[:, 1:]


def language_model(dropout=0.2):
    return nt.CausalLanguageModel(V, 12, 2, 2, max_len=T, dropout=dropout, tie_weights=False, rng=0)


def adapted(dropout=0.2, trained=("output",)):
    return nt.add_lora(language_model(dropout), 2, alpha=4.0, trained=trained, rng=1)


def trainer(model, workers=1, optimizer=nt.AdamW, **options):
    optimizer = optimizer(model.parameters(), 0.02)
    schedule = nt.CosineSchedule(optimizer, 2e-2, 1e-3, 3, 20)
    return nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, schedule, clip=1.0, workers=workers, **options)


def updates(model):
    return {name for name, _ in model.named_parameters() if name.endswith((".A", ".B"))}


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize("workers", [1, 2])
def test_training_leaves_frozen_weights_as_they_are_bit_for_bit(workers):
    model = adapted()
    before = model.state_dict()
    trainer(model, workers, accumulate=2).fit(batch, 5)
    changed = {name for name, array in model.state_dict().items() if not np.array_equal(array, before[name])}
    assert changed == set(model.state_dict(trained=True)) == updates(model) | {"output.weight"}
    assert not any(p.has_grad for p in model.parameters() if p.frozen)


def test_several_workers_give_the_gradients_of_one():
    models = [adapted(dropout=0.0), adapted(dropout=0.0)]
    for workers, model in enumerate(models, 1):
        run = trainer(model, workers)
        run.model.train()
        run.step([batch(0)])
    one, two = (model.state_dict(trained=True) for model in models)
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-3, atol=1e-5, err_msg=name)
    (worker,) = run.parallel.others
    assert isinstance(worker, ThreadWorker)     # frozen weights are not sent to a process
    replica = worker.replica.model
    assert replica.embedding.weight is model.embedding.weight               # a frozen parameter is shared as a whole
    ours, theirs = (m.decoder.blocks[0].attention.query.A for m in (model, replica))
    assert ours is not theirs and ours.data is theirs.data


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_parameters_that_are_frozen_or_unfrozen_between_steps_are_so_in_the_workers(workers):
    model = nt.freeze(language_model(0.0), "embedding").astype(np.float64)
    run = nt.Trainer(model, nt.CrossEntropyLoss(), nt.SGD(model.parameters(), 0.1), accumulate=2, workers=workers)
    forked = ProcessWorker if LINUX else ThreadWorker
    for change, kind in ((nt.unfreeze, forked), (nt.freeze, ThreadWorker), (nt.unfreeze, forked)):
        change(model, "decoder", "embedding")
        run.optimizer = nt.SGD(model.parameters(), 0.1)
        run.step([batch(0), batch(1)])
        assert {type(worker) for worker in run.parallel.others} == {kind} or workers == 1
        model.load_state_dict(language_model().state_dict())
        run.parallel.gradients([batch(2), batch(3)])
        whole = language_model(0.0).astype(np.float64)
        criterion = nt.CrossEntropyLoss()
        criterion(whole(np.concatenate([batch(n)[0] for n in (2, 3)])), np.concatenate([batch(n)[1] for n in (2, 3)]))
        whole.backward(criterion.backward())
        for (name, p), q in zip(model.named_parameters(), whole.parameters(), strict=True):
            np.testing.assert_allclose(p.grad, 0 if p.frozen else q.grad, rtol=1e-9, atol=1e-12, err_msg=name)


def test_optimizers_hold_the_trained_parameters_alone():
    model = adapted()
    count = model.num_parameters(trained=True)
    assert count == 2 * 2 * (12 * 2 + 2 * 12) + 12 * V
    for optimizer, arrays in ((nt.Adam, 2), (nt.AdamW, 2), (nt.SGD, 1)):
        state = optimizer(model.parameters(), 0.1).state()
        assert sum(array.size for group in state.values() for array in group) == arrays * count
    optimizer = nt.AdamW(model.parameters(), decay=[p for p in model.parameters() if p.data.ndim > 1])
    assert {id(p) for p in optimizer.decay} == {id(p) for p in model.parameters(trained=True)}
    assert not any(p.held for p in model.parameters() if p.frozen)


def test_a_step_equals_that_of_the_whole_model_where_nothing_is_frozen():
    whole, part = language_model(0.0), nt.freeze(language_model(0.0), "embedding", "decoder.blocks.0")
    for model in (whole, part):
        optimizer = nt.SGD(model.parameters(), 0.1, 0.9)
        criterion = nt.CrossEntropyLoss()
        inputs, targets = batch(0)
        criterion(model(inputs), targets)
        model.backward(criterion.backward())
        optimizer.step()
    trained = dict(part.named_parameters(trained=True))
    first = {name: p.data for name, p in whole.named_parameters() if name in trained}
    assert len(first) < len(whole.parameters())
    assert_equal(first, part.state_dict(trained=True))


def test_clipping_does_not_count_frozen_parameters():
    model = nt.freeze(nt.Linear(3, 2, rng=0), "weight")
    model.bias.grad = np.array([3.0, 4.0])
    assert nt.clip_grad_norm(model.parameters(), 1.0) == pytest.approx(5)
    np.testing.assert_allclose(model.bias.grad, [0.6, 0.8], rtol=1e-6)
    assert not model.weight.has_grad


def test_an_optimizer_without_a_trained_parameter_or_with_one_that_was_frozen_later_says_so():
    model = nt.freeze(nt.Linear(3, 2, rng=0))
    with pytest.raises(ValueError, match="all parameters are frozen, so there is nothing to optimize; nt.unfreeze"):
        nt.Adam(model.parameters())
    optimizer = nt.Adam(nt.unfreeze(model).parameters())
    nt.freeze(model, "bias")
    with pytest.raises(ValueError, match="frozen after the optimizer was made; make a new optimizer"):
        optimizer.step()
    again = nt.SGD(nt.unfreeze(model).parameters(), 0.1)
    before = model.bias.data.copy()
    model.bias.grad += 1
    again.step()
    np.testing.assert_allclose(model.bias.data, before - 0.1, rtol=1e-6)
    model.bias.grad = 0
    nt.freeze(model, "bias")
    model.bias.frozen = False                                   # the optimizer finds the new gradient
    model.bias.grad += 2
    again.step()
    np.testing.assert_allclose(model.bias.data, before - 0.3, rtol=1e-6)


def test_checkpoints_store_the_trained_parameters_alone_and_continue_bit_for_bit(tmp_path):
    options = {"validation": [batch(1000)], "every": 3, "patience": 9}
    path = tmp_path / "run.npz"
    straight = trainer(adapted())
    straight.fit(batch, 11, **options)
    first = trainer(adapted())
    first.fit(batch, 6, checkpoint=path, **options)
    arrays, meta = read_checkpoint(path)
    names = set(first.model.state_dict(trained=True))
    for group in ("model/", "best/", "optimizer/m/", "optimizer/v/"):
        assert {name.removeprefix(group) for name in arrays if name.startswith(group)} == names
    second = trainer(adapted())
    second.load(path)
    second.fit(batch, 5, **options)
    assert_equal(second.model.state_dict(), straight.model.state_dict())
    assert second.history == straight.history and second.best == straight.best


def test_a_run_is_rebuilt_from_the_base_and_the_stored_arrays(tmp_path):
    path = tmp_path / "run.npz"
    run = trainer(adapted())
    run.fit(batch, 4, checkpoint=nt.Checkpoint(path, every=2, keep=2))
    rebuilt = nt.add_lora(language_model(), 2, alpha=4.0, trained=("output",), rng=99)
    rebuilt.load_state_dict(weights(read_checkpoint(path)[0]), trained=True)
    assert_equal(rebuilt.state_dict(), run.model.state_dict())
    mean = nt.average_checkpoints([tmp_path / f"run.step-000000{n}.npz" for n in (2, 4)])
    assert set(mean) == set(run.model.state_dict(trained=True))
    rebuilt.load_state_dict(mean, trained=True)
    np.testing.assert_allclose(rebuilt.output.weight.data, mean["output.weight"], rtol=1e-6)


def test_a_checkpoint_of_other_trained_parameters_does_not_fit(tmp_path):
    path = tmp_path / "run.npz"
    trainer(adapted()).fit(batch, 1, checkpoint=path)
    other = trainer(adapted(trained=()))
    before = copy.deepcopy(other.model.state_dict())
    with pytest.raises(ValueError, match="does not fit this run, nothing was loaded: model/output.weight"):
        other.load(path)
    assert_equal(other.model.state_dict(), before)


def test_a_gradient_that_is_not_finite_is_looked_for_among_the_trained_ones():
    model = adapted(dropout=0.0)
    model.decoder.blocks[1].attention.value.A.data[...] = np.inf
    with pytest.raises(ValueError, match=r"first that is not finite is the value of decoder.blocks.1.attention.value.A"), \
            np.errstate(all="ignore"):
        trainer(model).fit(batch, 1)
    assert not any(p.has_grad for p in model.parameters() if p.frozen)
