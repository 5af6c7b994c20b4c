"""Batches that are split over processes or threads: any number of workers computes what one computes."""

import copy
import gc
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import run as command

import numpy_transformer as nt
from numpy_transformer import threads
from numpy_transformer.training import data_parallel, trainer, workers
from numpy_transformer.training.checkpoint import read_checkpoint
from numpy_transformer.training.data_parallel import DataParallel, split, workers_for
from numpy_transformer.training.workers import ProcessWorker, ThreadWorker

V, W, T, S, PAD = 11, 13, 7, 5, 0

LINUX = sys.platform == "linux"

pytestmark = pytest.mark.skipif(threads.blas() is None, reason="the BLAS threads of this NumPy cannot be limited")


@pytest.fixture
def in_threads(monkeypatch):
    monkeypatch.setattr(data_parallel, "can_fork", lambda model: False)


@pytest.fixture
def in_processes():
    if not LINUX:
        pytest.skip("workers are forked processes on Linux only")


@pytest.fixture(params=["threads", pytest.param("processes", marks=pytest.mark.slow)])
def kind(request):
    """Threads and processes, for what holds for both. A process is slow to fork from one that has run thousands of tests."""
    request.getfixturevalue(f"in_{request.param}")
    return request.param


both = pytest.mark.usefixtures("kind")


def language_model(dropout=0.0, seed=0, dtype=np.float64):
    return nt.CausalLanguageModel(V, 12, 2, 2, max_len=T, dropout=dropout, rng=seed).astype(dtype)


def translator(dropout=0.0, seed=0):
    return nt.EncoderDecoder(V, W, 12, 2, 2, 16, dropout, 8, rng=seed).astype(np.float64)


def batch(n=0, rows=5, ignored=0.0, empty=()):
    """Ids, and as targets the next ids; a share of the targets is ignored, and all targets of the `empty` rows."""
    rng = np.random.default_rng([3, n])
    ids = rng.integers(1, V, (rows, T + 1))
    targets = ids[:, 1:].copy()
    targets[rng.random(targets.shape) < ignored] = PAD
    targets[list(empty)] = PAD
    return ids[:, :-1], targets


def pairs(n=0, rows=5):
    """Padded sources and targets; the first rows are the shortest, so the parts of a batch count different numbers."""
    rng = np.random.default_rng([4, n])
    source, target = rng.integers(1, V, (rows, S)), rng.integers(1, W, (rows, T + 1))
    for row in range(rows):
        source[row, S - rng.integers(S - 1):] = PAD
        target[row, 2 + row * (T - 1) // (rows - 1):] = PAD
    return (source, target[:, :-1]), target[:, 1:]


def make(model, count, lr=0.1, **options):
    return nt.Trainer(model, nt.CrossEntropyLoss(0.1, ignore_id=PAD), nt.SGD(model.parameters(), lr, 0.9), workers=count,
                      **options)


def assert_near(ours, wanted, tolerance=1e-12):
    """Array by array, relative. A key's bias has only a rounding error for a gradient, so the largest array is its scale."""
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


def by_hand(model, given):
    """Loss and gradients of an equal model without any Trainer: the reference for the workers' sums."""
    model, criterion = copy.deepcopy(model), nt.CrossEntropyLoss(0.1, ignore_id=PAD)
    model.zero_grad()
    inputs = given[0] if isinstance(given[0], tuple) else (given[0],)
    loss = criterion(model(*inputs), given[1])
    model.backward(criterion.backward())
    return loss, gradients(model)


# the sums

STEPS = {                                       # the batches of each step
    "even": (language_model, [[batch(n, 6)] for n in range(3)]),
    "fewer rows than workers": (language_model, [[batch(0, 2)], [batch(1, 1)], [batch(2, 4)]]),
    "ignored": (language_model, [[batch(0, 6, 0.7)], [batch(1, 5, 0.5)], [batch(2, 7, 0.1)]]),
    "the last part is ignored": (language_model, [[batch(n, 6, 0.2, empty=(3, 4, 5))] for n in range(3)]),
    "the first part is ignored": (language_model, [[batch(n, 6, 0.2, empty=(0, 1, 2))] for n in range(3)]),
    "accumulated": (language_model, [[batch(2 * n, 5, 0.8), batch(2 * n + 1, 2, 0.1)] for n in range(3)]),
    "pairs, accumulated": (translator, [[pairs(2 * n, 3), pairs(2 * n + 1, 6)] for n in range(3)]),
}


@both
@pytest.mark.parametrize("case", [
    pytest.param(case, marks=() if case == "pairs, accumulated" else pytest.mark.slow) for case in STEPS])
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
    assert [len(run.parallel.others) for run in runs] == [0, 1, 2]


@pytest.mark.parametrize("count", [*(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2)), 3])
@pytest.mark.parametrize("build, given", [(language_model, batch(0, 5, 0.4)), (translator, pairs(0)),
                                          (language_model, batch(0, 6, 0.2, empty=(3, 4, 5)))])
def test_gradients_are_those_of_the_model_called_by_hand(count, build, given):
    model = build()
    loss, wanted = by_hand(model, given)
    parallel = DataParallel(model, nt.CrossEntropyLoss(0.1, ignore_id=PAD), count)
    for _ in range(2):                          # the gradients of the first call are forgotten
        assert parallel.gradients([given]) == (pytest.approx(loss, rel=1e-12), np.count_nonzero(given[1]))
        assert_near(gradients(model), wanted)


def test_the_parts_of_these_batches_count_different_numbers_of_targets():
    """So the tests above would fail if the parts' mean gradients were averaged."""
    for given in (batch(0, 6, 0.7), batch(0, 6, 0.2, empty=(3, 4, 5)), pairs(0)):
        first, second = (np.count_nonzero(targets != PAD) for _, targets in split(given, 2))
        assert first != second


@both
def test_a_worker_without_a_part_adds_nothing_of_an_earlier_step():
    run, alone = make(language_model(), 3), make(language_model(), 1)
    for n, rows in enumerate((9, 1, 2, 9, 2, 1)):
        row = run.step([batch(n, rows)])
        assert row["loss"] == pytest.approx(alone.step([batch(n, rows)])["loss"], rel=1e-12)
        assert_near(gradients(run.model), gradients(alone.model))


@pytest.mark.parametrize("piece, calls", [(2000, 1), (14, 2), (1, 3), (21, 1)])
def test_a_large_part_is_computed_in_pieces_and_a_single_worker_takes_the_whole_batch(in_threads, monkeypatch, piece, calls):
    """Three rows of seven tokens for each of two workers."""
    monkeypatch.setattr(data_parallel, "PIECE", piece)
    given, model, seen = batch(0, 6, 0.4), language_model(), []
    loss, wanted = by_hand(model, given)
    forward = nt.CausalLanguageModel.forward
    monkeypatch.setattr(nt.CausalLanguageModel, "forward", lambda self, ids: seen.append(len(ids)) or forward(self, ids))
    for count in (1, 2):
        parallel = DataParallel(model, nt.CrossEntropyLoss(0.1, ignore_id=PAD), count)
        assert parallel.gradients([given])[0] == pytest.approx(loss, rel=1e-12)
        assert_near(gradients(model), wanted)
        if count == 1:
            assert seen == [6]
    assert len(seen) - 1 == 2 * calls and sum(seen) == 12


@both
def test_a_step_whose_targets_are_all_ignored_is_refused():
    run = make(language_model(), 3)
    with pytest.raises(ValueError, match="step 1: all targets in its batches are ignored"):
        run.step([batch(0, 5, empty=range(5))])
    assert run.step([batch(0)])["loss"] == pytest.approx(by_hand(language_model(), batch(0))[0], rel=1e-12)


@pytest.mark.parametrize("rows, count", [(5, 2), (7, 3), (6, 3), (2, 3), (3, 3)])
def test_every_part_has_its_rows_and_no_others(rows, count):
    ids, targets = batch(0, rows)
    parts = split((ids, targets), count)
    assert len(parts) == min(rows, count)
    assert {len(part) for _, part in parts} <= {rows // len(parts), -(-rows // len(parts))}
    np.testing.assert_array_equal(np.concatenate([x for (x,), _ in parts]), ids)
    np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), targets)


class Masked(nt.Module):
    """Attention under a mask that comes with the batch."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.embedding, self.attention = nt.Embedding(V, 12, rng=rng), nt.SelfAttention(12, 2, rng=rng)
        self.output = nt.Linear(12, V, rng=rng)

    def forward(self, ids, mask):
        return self.output(self.attention(self.embedding(ids), mask))

    def backward(self, dy):
        self.embedding.backward(self.attention.backward(self.output.backward(dy)))


@pytest.mark.parametrize("shape, cut", [
    ((1, 2, 1, T), False), ((5, 2, T, T), True), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        ((T, T), False), ((1, 1, T, T), False), (None, False), ((5, 1, 1, T), True)))])
def test_a_mask_is_split_where_it_has_the_batch_axis_and_whole_where_it_is_broadcast(shape, cut):
    ids, targets = batch(0, 5)
    mask = None if shape is None else np.random.default_rng(1).random(shape) < 0.6
    parts = split(((ids, mask), targets), 2)
    assert [x[1] is mask for x, _ in parts] == [not cut] * 2
    model = Masked().astype(np.float64)
    wanted = by_hand(model, ((ids, mask), targets))[1]
    DataParallel(model, nt.CrossEntropyLoss(0.1, ignore_id=PAD), 3).gradients([((ids, mask), targets)])
    assert_near(gradients(model), wanted)


# dropout and generators

def trained(count, seed=0, steps=3, dtype=np.float64):
    run = make(language_model(0.3, seed, dtype), count)
    run.fit(lambda n: batch(n, 5, 0.2), steps=steps)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_the_same_seed_and_number_of_workers_give_the_same_bits_and_other_numbers_do_not(dtype):
    runs = {count: trained(count, dtype=dtype, steps=2) for count in (1, 2, 3)}
    for count, run in runs.items():
        again = trained(count, dtype=dtype, steps=2)
        assert_same(again.model, run.model)
        assert again.history == run.history
    assert differ(runs[1].model, runs[2].model) and differ(runs[2].model, runs[3].model)
    assert differ(runs[2].model, trained(2, seed=1, dtype=dtype, steps=2).model)


class Draws(nt.Module):
    """A model that is nothing but dropout: `last` shows what the masks have kept."""

    def __init__(self, *rngs):
        self.dropouts = [nt.Dropout(0.5, rng) for rng in rngs]
        self.kept = nt.Parameter(np.zeros((len(rngs), 64)))

    def forward(self, x):
        for dropout in self.dropouts:
            dropout(np.ones(64))
        return 0.0

    def backward(self, dy):
        self.last = np.array([dropout.backward(np.full(64, dy)) for dropout in self.dropouts])
        self.kept.grad += self.last


class Switch(nt.Module):
    """A loss of 1 in training and 0 in eval."""

    def forward(self, output, targets):
        self.count = targets.size
        return float(self.training)

    def backward(self, dy=1.0):
        return dy


EVERY = [(np.zeros((6, 2)), np.zeros(6))]


def draw(parallel):
    """What each worker keeps in a step, (dropout, entry), the model itself first."""
    assert parallel.gradients(EVERY)[1] == 6
    return [kept > 0 for kept in (parallel.model.model.last, *(worker.gradients()[0] for worker in parallel.others))]


def replicas(parallel):
    return [parallel.model, *(worker.replica for worker in parallel.others)]


def different(masks):
    return len({mask.tobytes() for mask in masks}) == len(masks)


@both
def test_each_worker_draws_other_masks_and_new_ones_at_each_step():
    model = Draws(5)
    rng = model.dropouts[0].rng
    state = rng.bit_generator.state
    parallel, again, other = (DataParallel(each, Switch(), 3) for each in (model, Draws(5), Draws(6)))
    steps = [draw(parallel) for _ in range(3)]
    assert all(16 < mask.sum() < 48 for masks in steps for mask in masks)
    assert different([mask for masks in steps for mask in [*masks, *draw(other)]])
    np.testing.assert_array_equal([draw(again) for _ in range(3)], steps)           # the seed decides
    rng.bit_generator.state = state
    assert model.dropouts[0].rng is rng
    np.testing.assert_array_equal([draw(parallel) for _ in range(3)], steps)        # replicas have no state of their own


def test_one_worker_draws_as_the_model_alone():
    kept = draw(DataParallel(Draws(5, 6), Switch(), 1))
    np.testing.assert_array_equal(kept, [[nt.Dropout(0.5, seed)(np.ones(64)) > 0 for seed in (5, 6)]])


def test_modules_that_share_a_generator_share_one_in_every_replica(in_threads):
    first = np.random.default_rng(5)
    parallel = DataParallel(Draws(first, 6, first), Switch(), 3)
    assert different([mask for masks in draw(parallel) for mask in masks])
    models = [replica.model for replica in replicas(parallel)]
    assert all(a.dropouts[0].rng is a.dropouts[2].rng is not a.dropouts[1].rng for a in models)
    assert len({id(dropout.rng) for model in models for dropout in model.dropouts}) == 6


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Philox", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("MT19937", "PCG64DXSM"))])
def test_generators_of_any_kind_can_seed_the_replicas(kind):
    def made():
        return DataParallel(Draws(np.random.Generator(getattr(np.random, kind)(5))), Switch(), 3)

    parallel, again = made(), made()
    steps = [draw(parallel) for _ in range(2)]
    assert different([mask for masks in steps for mask in masks])
    np.testing.assert_array_equal([draw(again) for _ in range(2)], steps)


@both
def test_train_and_eval_reach_the_replicas():
    model, criterion = Draws(5, 6), Switch()
    parallel = DataParallel(model, criterion, 3)
    assert [mask.all() for mask in draw(parallel)] == [False] * 3 and parallel.gradients(EVERY)[0] == 1
    model.eval(remember=True)
    assert [mask.all() for mask in draw(parallel)] == [True] * 3
    criterion.eval()
    assert parallel.gradients(EVERY)[0] == 0    # a replica still in training would add a third
    model.train()
    model.dropouts[1].training = False          # of one module alone
    assert [mask.all(axis=1).tolist() for mask in draw(parallel)] == [[False, True]] * 3


@pytest.mark.slow
def test_validation_between_the_steps_does_not_disturb_the_workers():
    validated, plain = make(language_model(0.3), 2), make(language_model(0.3), 2)
    validated.fit(batch, 4, validation=[batch(9)], every=1)
    plain.fit(batch, 4)
    assert_same(validated.model, plain.model)


# weights

def test_replicas_share_the_weights_and_not_the_gradients(in_threads):
    model = language_model()
    model.output.bias = nt.Parameter(np.ones(3))            # one that forward does not use
    parallel = DataParallel(model, nt.CrossEntropyLoss(), 3)
    for optimizer in (None, nt.SGD(model.parameters(), 0.1), nt.Adam(model.parameters()[2:5])):
        parallel.gradients([batch(0)])
        models = [replica.model for replica in replicas(parallel)]
        assert len(models) == 3 and models[0] is model
        for same in zip(*(each.named_parameters() for each in models), strict=True):
            assert len({name for name, _ in same}) == 1 and len({id(p.data) for _, p in same}) == 1
            for a, b in ((0, 1), (0, 2), (1, 2)):
                assert not np.shares_memory(same[a][1].grad, same[b][1].grad)
        assert all(each.output.weight is each.embedding.weight for each in models)          # still tied


def loaded(run):
    run.model.load_state_dict(language_model(seed=8).state_dict())


def assigned(run):
    run.model.embedding.weight.data[3] *= 2


def moved(run):                                 # into the buffer of a second optimizer, which takes a step too
    second = nt.SGD(run.model.parameters(), 0.1)
    second.step()
    run.model.decoder.norm.gamma.data = 2


def replaced(run):
    run.optimizer = nt.SGD(run.model.parameters(), 0.05)


@both
@pytest.mark.parametrize("change", [moved, *(pytest.param(change, marks=pytest.mark.slow)
                                             for change in (assigned, loaded, replaced))])
def test_weights_that_change_between_steps_reach_the_replicas(change):
    runs = [make(language_model(), count) for count in (1, 3)]
    for run in runs:
        run.step([batch(0)])
        change(run)
        run.step([batch(1)])
    assert_near(gradients(runs[1].model), gradients(runs[0].model))
    for run in runs:
        run.step([batch(2)])
    assert_near(runs[1].model.state_dict(), runs[0].model.state_dict())


def test_a_model_that_is_converted_between_steps_is_converted_in_the_replicas(kind):
    model = translator()                        # its table of positions is converted as well
    parallel = DataParallel(model, nt.CrossEntropyLoss(0.1, ignore_id=PAD), 3)
    parallel.gradients([pairs(0)])
    model.astype(np.float32)
    loss, wanted = by_hand(model, pairs(1))
    assert parallel.gradients([pairs(1)])[0] == pytest.approx(loss, rel=1e-5)
    assert_near(gradients(model), wanted, 1e-5)
    assert {grad.dtype for worker in parallel.others for grad in worker.gradients()} == {np.dtype(np.float32)}
    if kind == "threads":
        assert {replica.model.source_positions.table.dtype for replica in replicas(parallel)} == {np.dtype(np.float32)}


@pytest.mark.slow
@both
def test_two_trainers_take_turns_on_one_model():
    models = [language_model(), language_model()]
    turns = [[make(model, count), make(model, count, lr=0.02)] for model, count in zip(models, (1, 2))]
    for n in range(4):
        for run in turns:
            run[n % 2].step([batch(n)])
    assert_near(models[1].state_dict(), models[0].state_dict())


# BLAS threads and errors

class Troubled(nt.Module):
    """A language model in which some ids outside its vocabulary cause trouble, {id: function}."""

    def __init__(self, troubles):
        self.model, self.troubles = language_model(), troubles

    def forward(self, ids):
        for value, trouble in self.troubles.items():
            if (ids == value).any():
                trouble()
        return self.model(np.where(ids < V, ids, 1))

    def backward(self, dy):
        return self.model.backward(dy)


class Trouble(Exception):
    pass


def fail(kind=Trouble):
    error = kind("too late", 3)
    error.hint = "earlier"
    raise error


def spoiled(values):
    """A batch of six rows with ids outside the vocabulary in some of them, {row: id}."""
    ids, targets = batch(0, 6)
    for row, value in values.items():
        ids[row, 2] = value
    return ids, targets


@pytest.fixture
def two_threads():
    before = threads.set_blas_threads(2)
    yield
    threads.set_blas_threads(before)


@both
def test_blas_has_one_thread_while_several_workers_compute(two_threads):
    seen = workers.shared_array(np.zeros(3))
    troubles = {20 + n: lambda n=n: seen.__setitem__(n, threads.blas()[0]()) for n in range(3)}
    for count, wanted in ((1, 2), (3, 1)):
        make(Troubled(troubles), count).step([spoiled({0: 20, 2: 21, 5: 22})])
        assert seen.tolist() == [wanted] * 3 and threads.blas()[0]() == 2


@both
@pytest.mark.parametrize("error", [Trouble, *(pytest.param(error, marks=pytest.mark.slow)
                                              for error in (KeyboardInterrupt, SystemExit))])
@pytest.mark.parametrize("rows", [[0], [2, 5], *(pytest.param(rows, marks=pytest.mark.slow)
                                                 for rows in ([2], [5], [0, 2, 5]))])
def test_an_error_in_any_part_is_raised_unchanged_and_the_next_step_works(two_threads, rows, error):
    """The other workers are still busy when it is raised."""
    run = make(Troubled({20: lambda: fail(error), 21: lambda: time.sleep(0.05)}), 3)
    alone = make(language_model(), 1)
    for n in range(2):
        before = run.model.state_dict()
        with pytest.raises(error) as raised:
            run.step([spoiled({0: 21, 2: 21, 5: 21} | dict.fromkeys(rows, 20))])
        assert type(raised.value) is error and raised.value.args == ("too late", 3) and raised.value.hint == "earlier"
        assert threads.blas()[0]() == 2 and run.steps == len(run.history) == n
        for name, array in run.model.state_dict().items():
            np.testing.assert_array_equal(array, before[name])
        assert run.step([batch(n)])["loss"] == pytest.approx(alone.step([batch(n)])["loss"], rel=1e-12)
        assert_near(gradients(run.model.model), gradients(alone.model))


@both
def test_an_error_is_raised_after_the_other_workers_have_finished():
    finished = workers.shared_array(np.zeros(2))
    others = {21 + n: lambda n=n: time.sleep(0.1) or finished.__setitem__(n, 1) for n in range(2)}
    run = make(Troubled({20: fail, **others}), 3)
    with pytest.raises(Trouble):
        run.step([spoiled({0: 20, 2: 21, 5: 22})])
    assert finished.tolist() == [1, 1]


def test_no_saved_values_remain_of_parts_that_failed_or_were_ignored(in_threads):
    run = make(language_model(), 3)

    def left():
        modules = [module for replica in replicas(run.parallel) for module in replica.modules]
        return [module for module in modules if vars(module).get("_saved")]

    run.step([batch(0, 6, empty=(2, 3))])
    assert len(replicas(run.parallel)) == 3 and not left()
    ids, targets = batch(0, 6)
    targets[5, 2] = 23                          # found by the loss, when the model already remembers
    with pytest.raises(IndexError):
        run.step([(ids, targets)])
    assert left()
    run.step([batch(0, 6)])
    assert not left()


@pytest.mark.parametrize("count", [*(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2)), 3])
def test_other_mistakes_in_the_targets_are_not_taken_for_ignored_ones(count):
    run, (ids, targets) = make(language_model(), count), batch(0, 6)
    for wrong in (targets[:, :3], np.where(np.arange(6)[:, None] < 5, targets, 23), np.full((6, 3), PAD)):
        with pytest.raises((ValueError, IndexError), match="wanted one target for each|23"):
            run.step([(ids, wrong)])
    assert run.steps == 0


@both
@pytest.mark.parametrize("row", [0, pytest.param(2, marks=pytest.mark.slow), 5])
def test_a_loss_that_is_not_finite_names_the_step_and_changes_nothing(row):
    run, alone = make(Troubled({20: fail}), 3, accumulate=2), make(language_model(), 1, accumulate=2)
    ids, targets = batch(1, 6)
    ids[ids == 4], ids[row, 2] = 5, 4           # id 4 occurs in this row only
    kept = run.model.model.embedding.weight.data[4].copy()
    run.model.model.embedding.weight.data[4] = math.nan
    before = run.model.state_dict()
    with pytest.raises(ValueError, match=r"step 1: the loss is nan.*first that is not finite is the value of model.embedding.weight"):
        run.step([(ids, targets), spoiled({row: 20})])      # that worker stops before its second batch
    for name, array in run.model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    run.model.model.embedding.weight.data[4] = kept
    for each in (run, alone):
        each.step([batch(1, 6), batch(2, 6)])
    assert_near(run.model.model.state_dict(), alone.model.state_dict())


@both
@pytest.mark.parametrize("row", [0, 5])
def test_errstate_of_the_caller_holds_in_every_worker(row):
    run = make(Troubled({20: lambda: np.full(3, 1e30, np.float32) * np.float32(1e30)}), 2)
    with np.errstate(all="ignore"):
        run.step([spoiled({row: 20})])
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="overflow"):
        run.step([spoiled({row: 20})])


class Foreign:
    """A module that has forward and backward and knows nothing of this package."""

    def forward(self, x):
        return 2 * x

    def backward(self, dy):
        return 2 * dy


class WithForeign(nt.Module):
    def __init__(self):
        self.model, self.foreign = language_model(), Foreign()

    def forward(self, ids):
        return self.foreign.forward(self.model(ids))

    def backward(self, dy):
        return self.model.backward(self.foreign.backward(dy))


@both
@pytest.mark.parametrize("count", [1, 3])
def test_a_module_of_another_kind_works_as_it_does_alone(count):
    model = WithForeign()
    loss, wanted = by_hand(model, batch(0))
    assert make(model, count).step([batch(0)])["loss"] == pytest.approx(loss, rel=1e-12)
    assert_near(gradients(model), wanted)


@pytest.mark.parametrize("count", [2, 3])
def test_without_a_blas_to_limit_one_worker_trains_and_a_warning_says_so(monkeypatch, count):
    for module in (threads, trainer, data_parallel):
        monkeypatch.setattr(module, "blas", lambda: None)
    run = make(language_model(), count)
    with pytest.warns(UserWarning, match=f"cannot be limited, so one worker trains instead of {count}") as caught:
        run.step([batch(0)])
    assert caught[0].filename == __file__ and run.workers == 1 and not run.parallel.others
    assert workers_for(large(), [nt.Parameter(np.zeros(10 ** 6))]) == 1


def test_threads_end_with_their_trainer(in_threads):
    before = set(threading.enumerate())
    run = make(language_model(), 3)
    run.step([batch(0)])
    own = set(threading.enumerate()) - before
    gone = weakref.ref(run.parallel)
    assert len(own) == 2
    del run
    gc.collect()
    for thread in own:
        thread.join(30)
    assert gone() is None and not any(thread.is_alive() for thread in own)


def test_a_trainer_works_in_any_thread_and_several_work_side_by_side():
    """A process is not forked in a thread, because others may hold locks at that moment."""
    wanted = by_hand(language_model(), batch(0))[1]
    runs = [make(language_model(), 2) for _ in range(4)]
    threads = [threading.Thread(target=run.step, args=([batch(0)],), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for run in runs:
        assert_near(gradients(run.model), wanted)
        assert isinstance(run.parallel.others[0], ThreadWorker)
    runs[0].step([batch(1)])                    # and then in this one


@both
def test_a_copy_of_a_trainer_continues_with_workers_of_its_own():
    run, alone = make(language_model(0.3), 2), make(language_model(0.3), 2)
    for each in (run, alone):
        each.fit(batch, 2)
    twin = copy.deepcopy(run)
    assert twin.parallel is None and twin.workers == 2
    for each in (twin, run, alone):
        each.fit(batch, 2)
    assert_same(run.model, alone.model)
    assert_same(twin.model, alone.model)
    assert not any(np.shares_memory(p.data, q.data) for p, q in zip(run.parameters, twin.parameters))


# processes

def pids(run):
    return [worker.process.pid for worker in run.parallel.others]


def are_alive(numbers):
    """Whether each of these processes is alive. One that has ended may still be in the table of processes, as a zombie."""
    def is_alive(number):
        try:
            return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False
    return [is_alive(number) for number in numbers]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_processes_give_the_same_bits_as_threads(in_processes, monkeypatch, dtype):
    in_process = {count: trained(count, dtype=dtype) for count in (2, 3)}
    monkeypatch.setattr(data_parallel, "can_fork", lambda model: False)
    for count, run in in_process.items():
        other = trained(count, dtype=dtype)
        assert {type(worker) for worker in run.parallel.others} == {ProcessWorker}
        assert {type(worker) for worker in other.parallel.others} == {ThreadWorker}
        assert_same(other.model, run.model)
        assert other.history == run.history


def test_the_cause_of_an_error_shows_the_traceback_of_the_worker(in_processes):
    run = make(Troubled({20: fail}), 2)
    with pytest.raises(Trouble) as raised:
        run.step([spoiled({5: 20})])
    cause = raised.value.__cause__
    assert isinstance(cause, RuntimeError) and "raised in a worker process" in str(cause)
    assert f'File "{__file__}"' in str(cause) and ", in fail" in str(cause)


@pytest.mark.slow
def test_an_error_that_cannot_be_sent_becomes_one_with_its_name_and_text(in_processes):
    class Local(Exception):
        pass

    class Choosy(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first} and {second}")

    def choosy():
        raise Choosy("this", "that")

    run = make(Troubled({20: lambda: fail(Local), 21: choosy}), 2)
    for value, text in ((20, r"^Local: \('too late', 3\)$"), (21, "^Choosy: this and that$")):
        with pytest.raises(RuntimeError, match=text) as raised:
            run.step([spoiled({5: value})])
        assert f'File "{__file__}"' in str(raised.value.__cause__)
    run.step([batch(0)])


@pytest.mark.parametrize("when", ["in its part", *(pytest.param(when, marks=pytest.mark.slow) for when in (
    "between two steps", "before it reads its part"))])
def test_a_killed_worker_is_reported_and_the_next_step_has_new_ones(in_processes, when):
    """As the system kills a process when memory runs out."""
    run = make(Troubled({20: lambda: os.kill(os.getpid(), signal.SIGKILL), 21: lambda: victim.kill()}), 3)
    alone = make(language_model(), 1)
    run.step([batch(0)])
    alone.step([batch(0)])
    before, victim = pids(run), run.parallel.others[1].process
    if when == "between two steps":
        victim.kill()
        victim.join()
    elif when == "before it reads its part":
        os.kill(victim.pid, signal.SIGSTOP)     # it is killed by the first part, which this process computes
    with pytest.raises(RuntimeError, match="a worker process has ended unexpectedly.*train with workers=1"):
        run.step([spoiled({0: 21} if when == "before it reads its part" else {5: 20})])
    assert run.step([batch(1)])["loss"] == pytest.approx(alone.step([batch(1)])["loss"], rel=1e-12)
    assert_near(gradients(run.model.model), gradients(alone.model))
    assert not set(before) & set(pids(run)) and not any(are_alive(before)) and all(are_alive(pids(run)))


@pytest.mark.slow
def test_after_an_interrupt_no_step_receives_the_answer_of_an_earlier_one(in_processes, monkeypatch):
    run, alone = make(language_model(), 2), make(language_model(), 1)

    def interrupted(*_):
        raise KeyboardInterrupt

    for n in range(2):
        run.step([batch(n)])
        alone.step([batch(n)])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(workers, "receive", interrupted)
            run.step([batch(9)])
    assert_near(run.model.state_dict(), alone.model.state_dict())


class Ignores(nt.Module):
    """A language model with a second input that it does not use."""

    def __init__(self):
        self.model = language_model()

    def forward(self, ids, ignored):
        return self.model(ids)

    def backward(self, dy):
        return self.model.backward(dy)


@pytest.mark.slow
def test_a_batch_that_cannot_be_sent_is_refused_and_the_next_step_works(in_processes):
    run = make(Ignores(), 3)
    ids, targets = batch(0)
    for _ in range(2):
        with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
            run.step([((ids, (n for n in ids)), targets)])
        assert run.steps == 0
    run.step([((ids, None), targets)])
    assert_near(gradients(run.model.model), by_hand(language_model(), batch(0))[1])


@pytest.mark.slow
def test_processes_end_with_their_trainer(in_processes):
    """Also those of a trainer whose pipes another trainer's workers have inherited."""
    first, second = make(language_model(), 3), make(language_model(), 2)
    for run in (first, second):
        run.step([batch(0)])
    own, others = pids(first), pids(second)
    assert all(are_alive(own)) and all(are_alive(others))
    del first, run
    gc.collect()
    assert not any(Path(f"/proc/{number}").exists() for number in own) and all(are_alive(others))
    second.step([batch(1)])


@pytest.mark.slow
def test_a_pipe_that_the_parent_closes_has_an_end_although_a_process_has_inherited_it(in_processes):
    source, sink = os.pipe()
    run = make(language_model(), 2)
    run.step([batch(0)])
    os.close(sink)
    os.set_blocking(source, False)              # otherwise the test would wait for the end
    assert os.read(source, 1) == b"" and all(are_alive(pids(run)))
    os.close(source)


@pytest.mark.slow
@pytest.mark.parametrize("daemon", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_forked_copy_of_a_trainer_has_workers_of_its_own(in_processes, daemon):
    """A daemon is not allowed to start processes, so its workers are threads."""
    run, alone = make(language_model(), 2), make(language_model(), 1)
    for each in (run, alone):
        each.step([batch(0)])
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()

    def train():
        row = run.step([batch(1)])
        (worker,) = run.parallel.others
        theirs.send((row["loss"], type(worker), None if daemon else worker.process.pid))
        run.parallel = None                     # this process ends without collecting it

    process = fork.Process(target=train, daemon=daemon)
    process.start()
    mine, wanted = run.step([batch(1)])["loss"], alone.step([batch(1)])["loss"]
    assert ours.poll(60)
    loss, used, number = ours.recv()
    process.join()
    assert used is (ThreadWorker if daemon else ProcessWorker) and loss == mine == pytest.approx(wanted, rel=1e-12)
    assert number not in pids(run)
    run.step([batch(2)])                        # the end of the copy has not ended the worker of this process


def test_where_the_system_refuses_to_fork_threads_do_the_work(in_processes, monkeypatch):
    def refuse():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    run = make(language_model(), 3)
    run.step([batch(0)])
    assert {type(worker) for worker in run.parallel.others} == {ThreadWorker}
    assert_near(gradients(run.model), by_hand(language_model(), batch(0))[1])


SCRIPT = """
import sys, time
import numpy as np
import numpy_transformer as nt

def batch(n):
    ids = np.random.default_rng(n).integers(0, 9, (4, 6))
    return ids[:, :-1], ids[:, 1:]

def validation():
    print(*(worker.process.pid for worker in run.parallel.others), flush=True)
    return 1.0

model = nt.CausalLanguageModel(9, 8, 2, 1, max_len=5, rng=0)
run = nt.Trainer(model, nt.CrossEntropyLoss(), nt.SGD(model.parameters(), 0.1), workers=3)
run.fit(batch, 10 ** 6, validation=validation, every=10, checkpoint=nt.Checkpoint(sys.argv[1], every=10 ** 6))
"""


@pytest.fixture
def script(in_processes, tmp_path):
    """A training with three workers in a session of its own, and the numbers of its worker processes."""
    environment = {**os.environ, "PYTHONPATH": str(Path(nt.__file__).parents[1])}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "run.npz")], start_new_session=True, text=True,
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    own = [int(number) for number in process.stdout.readline().split()]
    yield process, own
    process.kill()
    process.communicate()


def test_ctrl_c_saves_and_leaves_no_process(script, tmp_path):
    """As a terminal sends it: to all processes of the group."""
    process, own = script
    assert len(own) == 2 and all(are_alive(own))
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    step = read_checkpoint(tmp_path / "run.npz")[1]["step"]
    assert f"KeyboardInterrupt: stopped after step {step}, saved in" in err
    assert err.count("Traceback") == err.count("stopping after this step") == 1 and process.returncode == -signal.SIGINT
    assert not any(are_alive(own))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_when_their_parent_is_killed(script, number):
    process, own = script
    assert len(own) == 2 and all(are_alive(own))
    process.send_signal(number)
    process.wait()
    while any(are_alive(own)):
        time.sleep(0.05)


# the number of workers

def large(rows=6, length=400):
    ids = np.zeros((rows, length), int)
    return ids, ids


def test_little_work_gets_one_worker_and_much_work_as_many_as_cores_and_rows(monkeypatch):
    monkeypatch.setattr(data_parallel, "WORTHWHILE", 10 ** 7)
    monkeypatch.setattr(data_parallel, "cores", lambda: 4)
    parameters = [nt.Parameter(np.zeros(shape, np.float32)) for shape in ((100, 60), (4000,))]          # 10^4
    assert workers_for(large(6, 300), parameters) == 1      # 1.8 * 10^7
    assert workers_for(large(5, 400), parameters) == 2      # 2.0
    assert workers_for(large(6, 600), parameters) == 3      # 3.6
    assert workers_for(large(6, 4000), parameters) == 4
    assert workers_for(large(3, 4000), parameters) == 3 and workers_for(large(1, 4000), parameters) == 1
    assert workers_for(((large(6, 4000)[0], None), large(6, 4000)[1]), parameters) == 4     # inputs as a tuple
    assert workers_for((np.zeros((6, 500, 3)), large(6, 500)[1]), parameters) == 3          # vectors: 3000, not 9000
    assert workers_for((np.zeros(24000, int), np.zeros(24000, int)), parameters) == 1       # no batch axis
    assert workers_for((large(6, 4000)[0], np.zeros(5, int)), parameters) == 1              # no axis in common
    assert workers_for((large(6, 4000)[0], np.array(1.0)), parameters) == 1
    monkeypatch.setattr(data_parallel, "LARGE_MODEL", 10 ** 4)
    assert workers_for(large(6, 4000), parameters) == 1     # a second copy of the gradients would take too much memory
    parameters[1].frozen = True
    assert workers_for(large(6, 4000), parameters) == 4


def test_a_trainer_without_a_number_chooses_one_at_its_first_step(monkeypatch):
    asked = []
    monkeypatch.setattr(trainer, "workers_for", lambda *work: asked.append(work) or 2)
    monkeypatch.setattr(trainer, "cores", lambda: 3)
    run = make(language_model(), None)
    run.fit(batch, 3)
    assert run.workers == 2 and len(asked) == 1 and asked[0][1] == run.parameters
    np.testing.assert_array_equal(asked[0][0][0], batch(0)[0])


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_a_number_below_one_is_refused(count):
    with pytest.raises((ValueError, TypeError), match="workers must be"):
        make(language_model(), count)


# checkpoints

@pytest.mark.slow
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_resumed_run_takes_its_number_of_workers_from_the_file_and_ends_with_the_same_bits(tmp_path, count):
    whole, first, second = (make(language_model(0.3, seed), n) for seed, n in ((0, count), (0, count), (0, None)))
    whole.fit(batch, 6)
    first.fit(batch, 3, checkpoint=tmp_path / "run.npz")
    assert read_checkpoint(tmp_path / "run.npz")[1]["workers"] == count
    used = make(language_model(0.3, seed=5), count)         # one that has trained already, from another seed
    used.fit(batch, 2)
    for run in (second, used):
        run.load(tmp_path / "run.npz")
        assert run.workers == count
        run.fit(batch, 3)
        assert_same(run.model, whole.model)
        assert run.history == whole.history


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_another_number_of_workers_is_refused_and_nothing_is_loaded(tmp_path, count):
    make(language_model(0.3), 2).fit(batch, 2, checkpoint=tmp_path / "run.npz")
    other = make(language_model(0.3, seed=4), count)
    before = other.model.state_dict()
    with pytest.raises(ValueError, match=f"nothing was loaded: workers: 2 in the file, {count} here"):
        other.load(tmp_path / "run.npz")
    for name, array in other.model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    assert other.steps == 0


@pytest.mark.parametrize("count", [pytest.param(None, marks=pytest.mark.slow), 2])
def test_a_run_saved_before_its_first_step_leaves_the_number_open_and_keeps_its_random_numbers(tmp_path, count):
    make(language_model(0.3), None).save(tmp_path / "run.npz")
    assert read_checkpoint(tmp_path / "run.npz")[1]["workers"] is None
    run, plain = make(language_model(0.3, seed=6), count), make(language_model(0.3), count or 1)
    run.load(tmp_path / "run.npz")
    assert run.workers == count
    for each in (run, plain):
        each.fit(batch, 2)
    assert_same(run.model, plain.model)


def test_the_command_trains_with_the_given_number_of_workers(capsys, tmp_path):
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 30)
    code, _, _ = command(capsys, "train", "lm", "--d-model", 8, "--num-heads", 2, "--num-layers", 1, "--d-ff", 8,
                         "--steps", 2, "--warmup", 1, "--batch-size", 4, "--context", 8, "--workers", 2, "--text",
                         tmp_path / "text.txt", "--out", tmp_path / "run.npz")
    meta = read_checkpoint(tmp_path / "run.npz")[1]
    assert code == 0 and meta["settings"]["workers"] == meta["workers"] == 2
