"""Data-parallel threads, the flat buffers they need, and the machine: the same numbers, whoever computes them."""

import copy
import ctypes
import json
import math
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from commands import run as command

import numpy_transformer as nt
from numpy_transformer.training import machine, optimizers, trainer, workers
from numpy_transformer.training.checkpoint import read_checkpoint, write_checkpoint
from numpy_transformer.training.workers import Workers, split, workers_for

ROOT = Path(__file__).parents[1]
V, W, T, S, PAD = 11, 13, 7, 5, 0

pytestmark = pytest.mark.skipif(machine.blas() is None, reason="this NumPy's BLAS has no threads to limit")


def language_model(dropout=0.0, seed=0, dtype=np.float64):
    return nt.CausalLanguageModel(V, 12, 2, 2, max_len=T, dropout=dropout, rng=seed).astype(dtype)


def translator(dropout=0.0, seed=0):
    return nt.EncoderDecoder(V, W, 12, 2, 2, 16, dropout, 8, rng=seed).astype(np.float64)


def batch(n=0, rows=5, ignored=0.0, empty=()):
    """Ids, and as targets the ids one later; a share of the targets is ignored, in some rows all."""
    rng = np.random.default_rng([3, n])
    ids = rng.integers(1, V, (rows, T + 1))
    targets = ids[:, 1:].copy()
    targets[rng.random(targets.shape) < ignored] = PAD
    targets[list(empty)] = PAD
    return ids[:, :-1], targets


def pairs(n=0, rows=5):
    """Padded sources and targets; the first rows are the shortest, so shares of the rows count few targets or many."""
    rng = np.random.default_rng([4, n])
    source, target = rng.integers(1, V, (rows, S)), rng.integers(1, W, (rows, T + 1))
    for row in range(rows):
        source[row, S - rng.integers(S - 1):] = PAD
        target[row, 2 + row * (T - 1) // (rows - 1):] = PAD
    return (source, target[:, :-1]), target[:, 1:]


def make(model, count, lr=0.1, smoothing=0.1, **options):
    return nt.Trainer(model, nt.CrossEntropyLoss(smoothing, ignore_id=PAD), nt.SGD(model.parameters(), lr, 0.9),
                      workers=count, **options)


def assert_near(ours, wanted, tolerance=1e-12):
    """Array by array, relative; a key's bias has no gradient but rounding, so the largest array is its scale."""
    largest = max(np.linalg.norm(b) for b in wanted.values())
    assert list(ours) == list(wanted)
    for name, b in wanted.items():
        scale = largest if name.endswith("key.bias") else np.linalg.norm(b)
        assert scale > 0 and np.linalg.norm(ours[name] - b) <= tolerance * scale, name


def gradients(model):
    return {name: p.grad.copy() for name, p in model.named_parameters()}


def assert_same(model, other):
    for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(p.data, q.data, err_msg=name)


def differ(model, other):
    return any((p.data != q.data).any() for p, q in zip(model.parameters(), other.parameters(), strict=True))


STEPS = {                                       # batches of each step
    "even": (language_model, [[batch(n, 6)] for n in range(3)]),
    "uneven": (language_model, [[batch(n, 5, 0.3)] for n in range(3)]),
    "fewer rows than workers": (language_model, [[batch(0, 2)], [batch(1, 1)], [batch(2, 4)]]),
    "ignored": (language_model, [[batch(0, 6, 0.7)], [batch(1, 5, 0.5)], [batch(2, 7, 0.1)]]),
    "a last share of ignored targets": (language_model, [[batch(n, 6, 0.2, empty=(3, 4, 5))] for n in range(3)]),
    "a first share of ignored targets": (language_model, [[batch(n, 6, 0.2, empty=(0, 1, 2))] for n in range(3)]),
    "accumulated": (language_model, [[batch(2 * n, 5, 0.8), batch(2 * n + 1, 2, 0.1)] for n in range(3)]),
    "accumulated, few": (language_model, [[batch(n, 2), batch(n + 9, 1), batch(n, 3, empty=(0, 1, 2))]
                                          for n in range(3)]),
    "pairs": (translator, [[pairs(n)] for n in range(3)]),
    "pairs, accumulated": (translator, [[pairs(2 * n, 3), pairs(2 * n + 1, 6)] for n in range(3)]),
}


@pytest.mark.parametrize("case", STEPS)
def test_any_number_of_workers_computes_the_same(case):
    build, steps = STEPS[case]
    runs = [make(build(), count, accumulate=len(steps[0]), clip=1.0) for count in (1, 2, 3)]
    for batches in steps:
        rows = [run.step(batches) for run in runs]
        wanted = sum(np.count_nonzero(targets != PAD) for _, targets in batches)
        for run, row in zip(runs[1:], rows[1:]):
            assert row["tokens"] == wanted == rows[0]["tokens"]
            assert row["loss"] == pytest.approx(rows[0]["loss"], rel=1e-12)
            assert row["norm"] == pytest.approx(rows[0]["norm"], rel=1e-12)
            assert_near(gradients(run.model), gradients(runs[0].model))
            assert_near(run.model.state_dict(), runs[0].model.state_dict())
    assert [run.workers for run in runs] == [1, 2, 3]


def test_the_shares_count_different_numbers_of_targets():
    """The tests above can fail: a plain mean over the shares would be far off."""
    batches = [batch(0, 6, 0.7), batch(0, 6, 0.2, empty=(3, 4, 5)), pairs(0)]
    counts = [[np.count_nonzero(targets != PAD) for _, targets in split(one, 2)] for one in batches]
    assert all(a != b for a, b in counts) and counts[1][1] == 0


def test_gradients_are_those_of_the_model_called_by_hand():
    model, by_hand, criterion = language_model(), language_model(), nt.CrossEntropyLoss(0.1, ignore_id=PAD)
    ids, targets = batch(0, 5, 0.4)
    loss = criterion(by_hand(ids), targets)
    by_hand.backward(criterion.backward())
    found = Workers(model, nt.CrossEntropyLoss(0.1, ignore_id=PAD), 3).gradients([(ids, targets)], lambda *each: None)
    assert found == (pytest.approx(loss, rel=1e-12), np.count_nonzero(targets))
    assert_near(gradients(model), gradients(by_hand))


def test_targets_that_are_all_ignored_are_refused_by_many_workers_too():
    run = make(language_model(), 3)
    nothing = batch(0, 5, empty=range(5))
    with pytest.raises(ValueError, match="step 1: all targets of its 1 batches are ignored"):
        run.step([nothing])
    assert run.step([batch(0)])["loss"] == pytest.approx(make(language_model(), 1).step([batch(0)])["loss"], rel=1e-12)


def test_every_replica_gets_its_rows_and_no_others():
    for rows, count in ((5, 2), (7, 3), (6, 3), (2, 3), (3, 3)):
        ids, targets = batch(0, rows)
        parts = split((ids, targets), count)
        assert len(parts) == min(rows, count) and {len(part) for _, part in parts} <= {rows // len(parts),
                                                                                       -(-rows // len(parts))}
        np.testing.assert_array_equal(np.concatenate([x for (x,), _ in parts]), ids)
        np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), targets)


# masks

class Masked(nt.Module):
    """Attention under a mask that the batch brings along."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.embedding, self.attention = nt.Embedding(V, 12, rng=rng), nt.SelfAttention(12, 2, rng=rng)
        self.output = nt.Linear(12, V, rng=rng)

    def forward(self, ids, mask):
        return self.output(self.attention(self.embedding(ids), mask))

    def backward(self, dy):
        self.embedding.backward(self.attention.backward(self.output.backward(dy)))


@pytest.mark.parametrize("shape, cut", [((T, T), False), ((1, 1, T, T), False), ((1, 2, 1, T), False), (None, False),
                                        ((5, 1, 1, T), True), ((5, 2, T, T), True)])
def test_a_mask_is_cut_where_it_has_the_batch_and_whole_where_it_is_broadcast(shape, cut):
    ids, targets = batch(0, 5)
    mask = None if shape is None else np.random.default_rng(1).random(shape) < 0.6
    parts = split(((ids, mask), targets), 2)
    assert [x[1] is mask for x, _ in parts] == [not cut] * 2
    assert not cut or [len(x[1]) for x, _ in parts] == [len(x[0]) for x, _ in parts]
    runs = [make(Masked().astype(np.float64), count) for count in (1, 3)]
    for run in runs:
        run.step([((ids, mask), targets)])
    assert_near(gradients(runs[1].model), gradients(runs[0].model))


# dropout

def trained(count, seed=0, steps=3, dtype=np.float64):
    run = make(language_model(0.3, seed, dtype), count)
    run.fit(lambda n: batch(n, 5, 0.2), steps=steps)
    return run


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_seed_and_count_train_bit_for_bit_alike_and_other_counts_do_not(dtype):
    runs = {count: trained(count, dtype=dtype) for count in (1, 2, 3)}
    for count, run in runs.items():
        again = trained(count, dtype=dtype)
        assert_same(again.model, run.model)
        assert again.history == run.history
    assert differ(runs[1].model, runs[2].model) and differ(runs[2].model, runs[3].model)
    assert differ(runs[2].model, trained(2, seed=1, dtype=dtype).model)


def dropouts(model):
    return [module for _, module in model.named_modules() if isinstance(module, nt.Dropout)]


def test_each_replica_draws_other_numbers_and_shares_a_generator_as_the_model_does():
    model = language_model(0.3)
    state = model.dropout.rng.bit_generator.state
    models = [replica for replica, _ in Workers(model, nt.CrossEntropyLoss(), 3).pairs]
    assert models[0] is model and model.dropout.rng.bit_generator.state == state        # it draws as if it were alone
    for replica in models:
        assert len(dropouts(replica)) > 5 and len({id(dropout.rng) for dropout in dropouts(replica)}) == 1
    assert len({id(replica.dropout.rng) for replica in models}) == 3
    assert len({tuple(replica.dropout.rng.integers(2 ** 63, size=4)) for replica in models}) == 3
    again = [replica for replica, _ in Workers(language_model(0.3), nt.CrossEntropyLoss(), 3).pairs]
    other = [replica for replica, _ in Workers(language_model(0.3, 1), nt.CrossEntropyLoss(), 3).pairs]
    for a, b, c in list(zip(models, again, other))[1:]:                 # the seed and the number decide
        b.dropout.rng.integers(2 ** 63, size=4)
        c.dropout.rng.integers(2 ** 63, size=4)
        states = [replica.dropout.rng.bit_generator.state for replica in (a, b, c)]
        assert states[0] == states[1] != states[2]


def test_generators_that_are_apart_stay_apart():
    model = Masked()
    model.first, model.second, model.third = nt.Dropout(0.3, 5), nt.Dropout(0.3, 6), nt.Dropout(0.3, 7)
    model.third.rng = model.first.rng
    replica = Workers(model, nt.CrossEntropyLoss(), 2).pairs[1][0]
    assert replica.first.rng is replica.third.rng is not replica.second.rng
    states = [module.rng.bit_generator.state for part in (model, replica) for module in (part.first, part.second)]
    assert all(states.count(state) == 1 for state in states)


def test_generators_of_any_kind_are_given_to_the_replicas():
    for kind in (np.random.RandomState(5), np.random.Generator(np.random.MT19937(5))):
        model = Masked()
        model.dropout = nt.Dropout(0.3, kind)
        models = [replica for replica, _ in Workers(model, nt.CrossEntropyLoss(), 3).pairs]
        assert len({tuple(replica.dropout.rng.integers(2 ** 63, size=4)) for replica in models}) == 3


def test_dropout_off_in_the_model_is_off_in_every_replica():
    dropping, plain = make(language_model(0.5), 3), make(language_model(0.0), 1)
    dropping.step([batch(0)])                               # they exist, and drop
    dropping.model.load_state_dict(plain.model.state_dict())
    dropping.model.eval(remember=True)
    row = dropping.step([batch(1)])
    assert row["loss"] == pytest.approx(plain.step([batch(1)])["loss"], rel=1e-12)
    assert_near(gradients(dropping.model), gradients(plain.model))
    dropping.model.train()
    loss = dropping.step([batch(2)])["loss"]
    assert abs(loss - plain.step([batch(2)])["loss"]) > 1e-6
    assert all(module.training for replica, _ in dropping.team.pairs for module in dropouts(replica))


def test_a_step_in_eval_says_that_nothing_is_remembered_and_train_puts_it_right():
    run = make(language_model(), 2)
    run.step([batch(0)])
    run.model.eval()
    with pytest.raises(RuntimeError, match="nothing to recall"):
        run.step([batch(1)])
    run.model.train()
    run.step([batch(1)])
    assert run.steps == 2
    other = make(language_model().eval(), 2)
    other.hire(2)                               # while nothing is remembered
    other.model.train()
    assert other.step([batch(0)]) == run.history[0]


def test_validation_between_the_steps_disturbs_no_replica():
    whole = make(language_model(0.3), 2)
    whole.fit(batch, 4, validation=[batch(9)], every=1)
    plain = make(language_model(0.3), 2)
    plain.fit(batch, 4)
    assert_same(whole.model, plain.model)


# weights

def test_replicas_share_the_weights_and_not_the_gradients():
    model = language_model()
    model.output.bias = nt.Parameter(np.ones(3))            # one that forward does not use
    team = Workers(model, nt.CrossEntropyLoss(), 3)
    for optimizer in (None, nt.SGD(model.parameters(), 0.1), nt.Adam(model.parameters()[2:5])):
        team.gradients([batch(0)], lambda *each: None)
        for n, same in enumerate(zip(*(replica.named_parameters() for replica, _ in team.pairs), strict=True)):
            (name, original), *others = same
            for other_name, other in others:
                assert other_name == name and np.shares_memory(other.data, original.data)
                assert other.data.shape == original.data.shape
            for a, b in ((0, 1), (0, 2), (1, 2)):
                assert not np.shares_memory(same[a][1].grad, same[b][1].grad)
    replica = team.pairs[1][0]
    assert replica.output.weight is replica.embedding.weight is not model.embedding.weight


def test_weights_that_change_between_steps_reach_the_replicas():
    def loaded(run):
        run.model.load_state_dict(language_model(seed=8).state_dict())

    def assigned(run):
        run.model.embedding.weight.data[3] *= 2

    def moved(run):                             # into another buffer, and a step of its own
        second = nt.SGD(run.model.parameters(), 0.1)
        second.step()
        run.model.decoder.norm.gamma.data = 2

    def replaced(run):
        run.optimizer = nt.SGD(run.model.parameters(), 0.05)

    for change in (loaded, assigned, moved, replaced):
        runs = [make(language_model(), count) for count in (1, 3)]
        for run in runs:
            run.step([batch(0)])
            change(run)
            run.step([batch(1)])
        assert_near(gradients(runs[1].model), gradients(runs[0].model))
        for run in runs:
            run.step([batch(2)])
        assert_near(runs[1].model.state_dict(), runs[0].model.state_dict())


def test_two_trainers_take_turns_on_one_model():
    models = [language_model(), language_model()]
    turns = [[make(model, count), make(model, count, lr=0.02)] for model, count in zip(models, (1, 2))]
    for n in range(4):
        for run in turns:
            run[n % 2].step([batch(n)])
    assert_near(models[1].state_dict(), models[0].state_dict())


# the threads of BLAS, and errors

class Watched(nt.Module):
    """A language model that writes down the threads of BLAS, and in which a thread may fail."""

    seen = []                                   # of the class, so that replicas write here too

    def __init__(self):
        self.model = language_model()

    def forward(self, ids):
        self.seen.append(machine.blas()[0]())
        return self.model(ids)

    def backward(self, dy):
        self.seen.append(machine.blas()[0]())
        return self.model.backward(dy)


@pytest.fixture
def two_threads():
    """BLAS has two threads for the time of a test."""
    before = machine.set_blas_threads(2)
    Watched.seen.clear()
    yield
    machine.set_blas_threads(before)


def test_blas_has_one_thread_during_a_step_of_many_and_its_own_before_and_after(two_threads):
    run = make(Watched(), 3)
    run.step([batch(0)])
    assert Watched.seen == [1] * 6 and machine.blas()[0]() == 2
    Watched.seen.clear()
    make(Watched(), 1).step([batch(0)])
    assert Watched.seen == [2] * 2 and machine.blas()[0]() == 2


def spoilt(row, value):
    """A batch with an id in one of its six rows that no embedding has."""
    ids, targets = batch(0, 6)
    ids[row, 2] = value
    return ids, targets


@pytest.mark.parametrize("row", [0, 2, 3, 5])
def test_an_error_in_any_thread_is_raised_as_it_is_and_the_next_step_works(two_threads, row):
    run, alone = make(Watched(), 3), make(language_model(), 1)
    for _ in range(2):
        before = run.model.state_dict()
        with pytest.raises(IndexError, match="23") as error:
            run.step([spoilt(row, 23)])
        with pytest.raises(IndexError) as wanted:
            alone.step([spoilt(row, 23)])
        ours, theirs = (str(caught.value).split(" at index ")[0] for caught in (error, wanted))
        assert ours == theirs                   # the index is that within the share
        assert machine.blas()[0]() == 2 and run.steps == len(run.history)
        for name, array in run.model.state_dict().items():
            np.testing.assert_array_equal(array, before[name])
        assert run.step([batch(1)])["loss"] == pytest.approx(alone.step([batch(1)])["loss"], rel=1e-12)
        assert_near(gradients(run.model.model), gradients(alone.model))


def test_nothing_is_remembered_of_failed_or_ignored_shares():
    def left(run):
        parts = [part for pair in run.team.pairs for root in pair for _, part in root.named_modules()]
        return [part for part in parts if vars(part).get("_memory")]

    run = make(language_model(), 3)
    run.step([batch(0, 6, empty=(2, 3))])
    assert not left(run)
    for row in (0, 5):
        ids, targets = batch(0, 6)
        targets[row, 2] = 23                    # found by the loss, when the model already remembers
        with pytest.raises(IndexError):
            run.step([(ids, targets)])
        run.step([batch(0, 6)])
        assert not left(run)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_other_mistakes_in_the_targets_are_not_taken_for_ignored_ones(count):
    run, (ids, targets) = make(language_model(), count), batch(0, 6)
    for wrong in (targets[:, :3], np.where(np.arange(6)[:, None] < 5, targets, 23)):
        with pytest.raises((ValueError, IndexError), match="wanted one target for each|23"):
            run.step([(ids, wrong)])
    with pytest.raises(ValueError, match="wanted one target for each"):
        run.step([(ids, np.full((6, 3), PAD))])
    assert run.steps == 0


def test_errors_in_all_threads_are_waited_for(two_threads):
    run = make(Watched(), 3)
    with pytest.raises(IndexError):
        run.step([(np.full((6, T), 23), batch(0, 6)[1])])
    assert len(Watched.seen) == 3 and machine.blas()[0]() == 2


@pytest.mark.parametrize("row", [0, 5])
def test_a_loss_that_is_not_finite_names_the_step_and_changes_nothing(row):
    run = make(language_model(), 3)
    run.step([batch(0, 6)])
    ids, targets = batch(1, 6)
    ids[ids == 4], ids[row, 2] = 5, 4           # only here
    run.model.embedding.weight.data[4] = math.nan
    run.model.output.weight = nt.Parameter(np.ones((V, 12)))
    before = run.model.state_dict()
    with pytest.raises(ValueError, match=r"step 2: the loss is nan.*value of embedding.weight"):
        make_again = nt.Trainer(run.model, run.criterion, run.optimizer, workers=3)
        make_again.steps = 1
        make_again.step([(ids, targets)])
    for name, array in run.model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_numpy_settings_of_the_caller_hold_in_every_thread():
    model = nt.CausalLanguageModel(V, 12, 2, 2, max_len=T, tie_weights=False, rng=0)
    run = make(model, 2)
    model.embedding.weight.data[4] = 1e30
    ids, targets = batch(0, 6)
    ids[ids == 4], ids[5, 2] = 5, 4             # only in the second thread's share
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        run.step([(ids, targets)])


@pytest.mark.parametrize("count", [2, 3])
def test_without_a_blas_to_limit_one_worker_trains_and_a_warning_says_so(monkeypatch, count):
    for module in (machine, trainer, workers):
        monkeypatch.setattr(module, "blas", lambda: None)
    assert machine.set_blas_threads(1) == 0
    run = make(language_model(), count)
    with pytest.warns(UserWarning, match=f"cannot be limited, so one worker trains instead of {count}") as caught:
        run.step([batch(0)])
    assert caught[0].filename == __file__ and run.workers == 1 and len(run.team.pairs) == 1
    assert workers_for(large(), [nt.Parameter(np.zeros(10 ** 6))]) == 1


# how many

def large(rows=6, length=400):
    ids = np.zeros((rows, length), int)
    return ids, ids


def test_little_work_gets_one_thread_and_much_as_many_as_cores_and_rows(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 4)
    parameters = [nt.Parameter(np.zeros(shape, np.float32)) for shape in ((1000, 600), (400000,))]      # 10^6
    assert workers_for(batch(), language_model().parameters()) == 1
    assert workers_for(large(6, 30), parameters) == 1       # 1.8 * 10^8
    assert workers_for(large(5, 40), parameters) == 2       # 2.0
    assert workers_for(large(6, 60), parameters) == 3       # 3.6
    assert workers_for(large(6, 400), parameters) == 4
    assert workers_for(large(3, 400), parameters) == 3 and workers_for(large(1, 400), parameters) == 1
    assert workers_for(((large()[0], None), large()[1]), parameters) == 4                   # inputs as a tuple
    assert workers_for((np.zeros((6, 50, 3)), large(6, 50)[1]), parameters) == 3            # vectors: 300, not 900
    assert workers_for((large()[0][0], large()[1][0]), parameters) == 1                     # a sequence alone
    assert workers_for((np.zeros(2400, int), large(6)[1]), parameters) == 1
    assert workers_for((large(6)[0], np.zeros(5, int)), parameters) == 1                    # no axis in common
    assert workers_for((large(6)[0], np.array(1.0)), parameters) == 1
    monkeypatch.setattr(workers, "cores", lambda: 1)
    assert workers_for(large(), parameters) == 1


def test_a_trainer_without_a_count_asks_at_its_first_step(monkeypatch):
    asked = []
    monkeypatch.setattr(trainer, "workers_for", lambda *work: asked.append(work) or 2)
    run = make(language_model(), None)
    assert run.workers is None
    run.fit(batch, 3)
    assert run.workers == len(run.team.pairs) == 2 and len(asked) == 1 and asked[0][1] == run.parameters
    np.testing.assert_array_equal(asked[0][0][0], batch(0)[0])


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_a_count_below_one_is_refused(count):
    with pytest.raises((ValueError, TypeError), match="workers must be"):
        make(language_model(), count)


def test_cores_are_those_that_this_process_may_use(monkeypatch):
    assert machine.cores() >= 1
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: {1, 4, 6}, raising=False)
    assert machine.cores() == 3
    monkeypatch.delattr(machine.os, "sched_getaffinity")
    monkeypatch.setattr(machine.os, "cpu_count", lambda: None)
    assert machine.cores() == 1


# checkpoints

@pytest.mark.parametrize("count", [2, 3])
def test_a_resumed_run_takes_the_count_of_the_file_and_ends_bit_for_bit_like_an_undisturbed_one(tmp_path, count):
    whole, first, second = (make(language_model(0.3, seed), n) for seed, n in ((0, count), (0, count), (0, None)))
    whole.fit(batch, 6)
    first.fit(batch, 3, checkpoint=tmp_path / "run.npz")
    assert len(read_checkpoint(tmp_path / "run.npz")[1]["workers"]) == count - 1
    second.load(tmp_path / "run.npz")
    assert second.workers == len(second.team.pairs) == count
    second.fit(batch, 3)
    assert_same(second.model, whole.model)
    assert second.history == whole.history
    used = make(language_model(0.3, seed=5), count)         # one that has trained already, from another seed
    used.fit(batch, 2)
    used.load(tmp_path / "run.npz")
    used.fit(batch, 3)
    assert_same(used.model, whole.model)
    assert used.history == whole.history


def test_another_count_is_refused_and_nothing_is_loaded(tmp_path):
    first = make(language_model(0.3), 2)
    first.fit(batch, 2, checkpoint=tmp_path / "run.npz")
    for count in (1, 3):
        other = make(language_model(0.3, seed=4), count)
        before = other.model.state_dict()
        with pytest.raises(ValueError, match=f"nothing was loaded: workers: 2 in the file, {count} here"):
            other.load(tmp_path / "run.npz")
        for name, array in other.model.state_dict().items():
            np.testing.assert_array_equal(array, before[name])
        assert other.steps == 0
    same = make(language_model(0.3, seed=4), 2)
    same.load(tmp_path / "run.npz")
    assert same.steps == 2


def test_a_checkpoint_from_before_there_were_workers_had_one(tmp_path):
    whole, first, second = make(language_model(0.3), 1), make(language_model(0.3), 1), make(language_model(0.3), None)
    whole.fit(batch, 5)
    first.fit(batch, 3)
    first.save(tmp_path / "run.npz")
    arrays, meta = read_checkpoint(tmp_path / "run.npz")
    assert meta.pop("workers") == []
    write_checkpoint(tmp_path / "old.npz", arrays, meta)
    second.load(tmp_path / "old.npz")
    assert second.workers == 1
    second.fit(batch, 2)
    assert_same(second.model, whole.model)
    with pytest.raises(ValueError, match="workers: 1 in the file, 2 here"):
        make(language_model(0.3), 2).load(tmp_path / "old.npz")


@pytest.mark.parametrize("count", [None, 2])
def test_a_run_saved_before_its_first_step_leaves_the_count_open(tmp_path, count):
    make(language_model(0.3), None).save(tmp_path / "run.npz")
    assert read_checkpoint(tmp_path / "run.npz")[1]["workers"] is None
    run = make(language_model(0.3), count)
    run.load(tmp_path / "run.npz")
    assert run.workers == count and run.team is None
    run.fit(batch, 2)
    assert_same(run.model, trained_plain(count or 1).model)


def trained_plain(count):
    run = make(language_model(0.3), count)
    run.fit(batch, 2)
    return run


def test_a_run_saved_before_its_first_step_keeps_its_random_numbers(tmp_path):
    first = make(language_model(0.3), 1)
    first.save(tmp_path / "run.npz")
    second = make(language_model(0.3, seed=6), 1)
    second.load(tmp_path / "run.npz")
    for run in (first, second):
        run.fit(batch, 2)
    assert_same(first.model, second.model)


def test_the_command_trains_with_so_many_workers(capsys, tmp_path):
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 30)
    code, _, _ = command(capsys, "train", "lm", "--d-model", 8, "--num-heads", 2, "--num-layers", 1, "--d-ff", 8,
                         "--steps", 2, "--warmup", 1, "--batch-size", 4, "--context", 8, "--workers", 2, "--text",
                         tmp_path / "text.txt", "--out", tmp_path / "run.npz")
    meta = read_checkpoint(tmp_path / "run.npz")[1]
    assert code == 0 and meta["settings"]["workers"] == 2 and len(meta["workers"]) == 1


# flat buffers

def test_an_optimizer_moves_parameters_and_gradients_into_one_buffer_and_changes_no_number():
    model = language_model()
    rng = np.random.default_rng(1)
    for p in model.parameters():
        p.grad = rng.standard_normal(p.data.shape)
    before, wanted = model.state_dict(), gradients(model)
    optimizer = nt.Adam([*model.parameters(), model.output.weight])     # tied, and named twice
    (buffer,) = optimizer.buffers
    assert sum(p is model.embedding.weight for p in optimizer.parameters) == 1
    assert len(buffer.data) == len(buffer.grad) == model.num_parameters()
    places = []
    for name, p in model.named_parameters():
        assert p.data.base is buffer.data and p.grad.base is buffer.grad, name
        np.testing.assert_array_equal(p.data, before[name])
        np.testing.assert_array_equal(p.grad, wanted[name])
        start = (p.data.ctypes.data - buffer.data.ctypes.data) // p.data.itemsize
        places.append((start, start + p.data.size))
    places.sort()
    assert [a for _, a in places] == [b for b, _ in places[1:]] + [len(buffer.data)] and places[0][0] == 0
    state = model.state_dict()
    model.embedding.weight.data += 1
    np.testing.assert_array_equal(state["embedding.weight"], before["embedding.weight"])     # copies


def test_assignment_still_copies_into_the_buffer():
    model = nt.Linear(3, 5, rng=0)
    (buffer,) = nt.SGD(model.parameters(), 0.1).buffers
    value = np.arange(15.0, dtype=np.float32).reshape(3, 5)
    model.weight.data, model.weight.grad = value, 2 * value
    value[:] = -1
    np.testing.assert_array_equal(model.weight.data, np.arange(15.0).reshape(3, 5))
    np.testing.assert_array_equal(model.weight.grad, 2 * np.arange(15.0).reshape(3, 5))
    assert model.weight.data.base is buffer.data and model.weight.grad.base is buffer.grad
    with pytest.raises(ValueError, match="shape"):
        model.weight.data = np.zeros((5, 3))
    model.load_state_dict({"weight": np.ones((3, 5)), "bias": np.ones(5)})
    assert (buffer.data == 1).all()


def test_the_state_is_live_and_has_the_shapes_of_the_parameters():
    rng = np.random.default_rng(2)
    mixed = [nt.Parameter(rng.standard_normal(shape).astype(dtype)) for shape, dtype in (
        ((3, 5), "f4"), ((2,), "f8"), ((7,), "f4"), ((), "f8"), ((2, 3, 4), "f4"))]
    optimizer = nt.Adam(mixed, 0.1)
    assert len(optimizer.buffers) == 2 and {id(p) for p in optimizer.parameters} == {id(p) for p in mixed}
    for values in (optimizer.m, optimizer.v, *optimizer.state().values()):
        assert [(a.shape, a.dtype) for a in values] == [(p.data.shape, p.data.dtype) for p in optimizer.parameters]
    where = [n for n, p in enumerate(optimizer.parameters) if p is mixed[2]][0]
    optimizer.m[where][:] = 3
    assert (optimizer.state()["m"][where] == 3).all()
    before = mixed[2].data.copy()
    optimizer.step()
    np.testing.assert_allclose(optimizer.m[where], 2.7, rtol=1e-6)
    assert (mixed[2].data < before).all() and sum((a != 0).any() for a in optimizer.m) == 1


def scalar_step(kind, w, g, state, t, lr, options):
    """One step of one number, from the formula; the new w."""
    if kind == "SGD":
        state["v"] = options["momentum"] * state.get("v", 0.0) + g
        return w - lr * state["v"]
    beta1, beta2 = options.get("betas", (0.9, 0.999))
    state["m"] = beta1 * state.get("m", 0.0) + (1 - beta1) * g
    state["v"] = beta2 * state.get("v", 0.0) + (1 - beta2) * g * g
    m, v = state["m"] / (1 - beta1 ** t), state["v"] / (1 - beta2 ** t)
    if kind == "AdamW":
        w *= 1 - lr * options["weight_decay"]
    return w - lr * m / (math.sqrt(v) + options.get("eps", 1e-8))


@pytest.mark.parametrize("block", [1, 4, 7, 2 ** 16])
@pytest.mark.parametrize("kind, options", [("SGD", {"momentum": 0.8}), ("Adam", {"betas": (0.7, 0.9), "eps": 0.01}),
                                           ("AdamW", {"weight_decay": 0.3})])
def test_steps_in_blocks_are_those_of_each_number_alone(monkeypatch, kind, options, block):
    monkeypatch.setattr(optimizers, "BLOCK", block)
    rng = np.random.default_rng(3)
    parameters = [nt.Parameter(rng.standard_normal(shape)) for shape in ((2, 3), (5,), (), (4,))]
    wanted = [p.data.ravel().tolist() for p in parameters]
    states = [[{} for _ in numbers] for numbers in wanted]
    optimizer = getattr(nt, kind)(parameters, 0.1, **options)
    for t in range(1, 5):
        optimizer.lr = 0.1 / t
        for p, numbers, kept in zip(parameters, wanted, states):
            p.grad = rng.standard_normal(p.data.shape)
            numbers[:] = [scalar_step(kind, w, float(g), state, t, optimizer.lr, options)
                          for w, g, state in zip(numbers, p.grad.ravel(), kept)]
        optimizer.step()
        for p, numbers in zip(parameters, wanted):
            np.testing.assert_allclose(p.data.ravel(), numbers, rtol=1e-12)


def test_threads_that_share_the_blocks_of_a_step_change_nothing(monkeypatch):
    monkeypatch.setattr(optimizers, "BLOCK", 50)
    model, twin = language_model(), language_model()
    many, one = (nt.Trainer(m, nt.CrossEntropyLoss(), nt.AdamW(m.parameters(), eps=0.1), workers=n)
                 for m, n in ((model, 3), (twin, 1)))
    used, update = [], nt.AdamW.update
    monkeypatch.setattr(nt.AdamW, "update", lambda self, w, *rest: used.append(
        (self, len(w), threading.current_thread())) or update(self, w, *rest))
    for n in range(3):
        many.step([batch(n)])
        one.step([batch(n)])
    for run in (many, one):
        lengths = [length for optimizer, length, _ in used if optimizer is run.optimizer]
        assert sum(lengths) == 3 * model.num_parameters() and max(lengths) == 50
    assert {thread for optimizer, _, thread in used if optimizer is one.optimizer} == {threading.main_thread()}
    assert {thread for optimizer, _, thread in used if optimizer is many.optimizer} - {threading.main_thread()}
    assert_near(model.state_dict(), twin.state_dict())


def test_an_error_while_blocks_are_updated_is_raised():
    run = make(language_model(), 2)
    run.step([batch(0)])
    run.optimizer.lr = "fast"
    with pytest.raises(TypeError):
        run.optimizer.step()


@pytest.mark.parametrize("first, second", [((0, 4), (2, 6)), ((0, 6), (0, 6)), ((1, 3), (0, 6))])
def test_optimizers_with_common_parameters_both_move_the_model(first, second):
    def steps(apart):
        """apart: each step by a new optimizer that holds nothing else's arrays, with the state that was."""
        rng = np.random.default_rng(4)
        parameters = [nt.Parameter(rng.standard_normal(shape)) for shape in ((2, 3), (5,), (4,), (3, 2), (7,), (1, 2))]
        chosen = [parameters[slice(*part)] for part in (first, second)]
        both = [nt.SGD(part, 0.1, 0.9) for part in chosen]
        velocity = [[np.zeros(p.data.shape) for p in part] for part in chosen]
        for n in (0, 1, 0, 0, 1, 1, 0):
            for p in parameters:
                p.grad = rng.standard_normal(p.data.shape)
            if not apart:
                both[n].step()
                continue
            for p, v in zip(chosen[n], velocity[n]):
                v[:] = 0.9 * v + p.grad
                p.data = p.data - 0.1 * v
        return parameters

    for p, q in zip(steps(False), steps(True), strict=True):
        np.testing.assert_allclose(p.data, q.data, rtol=1e-12)


def test_parameters_of_different_dtypes_are_each_updated_in_their_own():
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape, dtype in (
        ((3, 2), np.float32), ((5,), np.float64), ((4,), np.complex128), ((2, 2), np.float32), ((3,), np.float64))]
    parameters = [nt.Parameter(array) for array in arrays]
    optimizer = nt.SGD(parameters, 0.5)
    for p, array in zip(parameters, arrays):
        p.grad = array / 3
    optimizer.step()
    for p, array in zip(parameters, arrays):
        assert p.data.dtype == p.grad.dtype == array.dtype
        np.testing.assert_allclose(p.data, array * 5 / 6, rtol=1e-6 if array.dtype == np.float32 else 1e-14)


def test_a_copy_of_model_and_optimizer_goes_on_together_and_alone():
    model = language_model()
    optimizer = nt.Adam(model.parameters(), 0.1)

    def go_on(model, optimizer, steps):
        criterion = nt.CrossEntropyLoss()
        for n in steps:
            model.zero_grad()
            criterion(model(batch(n)[0]), batch(n)[1])
            model.backward(criterion.backward())
            optimizer.step()

    go_on(model, optimizer, range(2))
    twin, its_optimizer = copy.deepcopy((model, optimizer))
    for p, q in zip(model.parameters(), twin.parameters()):
        assert not np.shares_memory(p.data, q.data) and not np.shares_memory(p.grad, q.grad)
    before = model.state_dict()
    go_on(twin, its_optimizer, range(2, 4))
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    assert differ(model, twin) and its_optimizer.t == 4 and optimizer.t == 2
    assert not any(np.shares_memory(a, b) for a, b in zip(optimizer.m, its_optimizer.m))
    go_on(model, optimizer, range(2, 4))
    assert_same(model, twin)


def test_a_copy_can_be_made_after_training_with_workers():
    run = make(language_model(), 2)
    run.step([batch(0)])
    twin, optimizer = copy.deepcopy((run.model, run.optimizer))
    twin.embedding.weight.grad = 1
    optimizer.step()
    assert differ(twin, run.model)


# the machine

def test_blas_threads_are_set_and_the_number_before_is_returned():
    before = machine.set_blas_threads(2)
    try:
        assert before >= 1 and machine.blas()[0]() == 2
        assert machine.set_blas_threads(1) == 2 and machine.blas()[0]() == 1
    finally:
        machine.set_blas_threads(before)


def test_memory_is_kept_where_there_is_a_malloc_to_tell(monkeypatch):
    class Library:
        told = []

        def mallopt(self, option, value):
            self.told.append((option, value))
            return int(option != refuses)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    refuses = None
    assert machine.keep_freed_memory() is True
    assert sorted(Library.told) == [(-8, 1), (-3, 2 ** 25), (-2, 2 ** 26), (-1, 2 ** 30)]     # numbers of malloc.h
    refuses = -1
    assert machine.keep_freed_memory() is False
    for missing in (AttributeError, OSError, TypeError):    # no glibc; no such library; Windows takes no None
        def fails(name, missing=missing):
            raise missing

        monkeypatch.setattr(ctypes, "CDLL", fails)
        assert machine.keep_freed_memory() is False


def test_fit_keeps_memory_and_a_step_alone_does_not(monkeypatch):
    called = []
    monkeypatch.setattr(trainer, "keep_freed_memory", lambda: called.append(1))
    run = make(language_model(), 1)
    run.step([batch(0)])
    assert not called
    run.fit(batch, 2)
    assert called == [1]


def test_importing_the_package_changes_nothing_of_the_process():
    code = ("import ctypes, json, numpy\n"
            "called = []\n"
            "load = ctypes.CDLL\n"
            "ctypes.CDLL = lambda *names, **more: called.append(names) or load(*names, **more)\n"
            "import threading, numpy_transformer\n"
            "from numpy_transformer.training import machine\n"
            "print(json.dumps([called, machine.blas.cache_info().currsize, threading.active_count()]))\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], 0, 1]


def test_the_page_stays_a_page():
    assert len((ROOT / "numpy_transformer/training/workers.py").read_text().splitlines()) <= 120
