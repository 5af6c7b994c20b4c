"""Data-parallel workers, the flat buffers they need, and the machine: the same numbers, whoever computes them."""

import contextlib
import copy
import ctypes
import gc
import json
import math
import multiprocessing.dummy
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from commands import run as command

import numpy_transformer as nt
from numpy_transformer.training import machine, optimizers, replica, shares, trainer, workers
from numpy_transformer.training.checkpoint import read_checkpoint, write_checkpoint
from numpy_transformer.training.shares import split, workers_for
from numpy_transformer.training.workers import Workers

ROOT = Path(__file__).parents[1]
TESTS = os.getpid()
V, W, T, S, PAD = 11, 13, 7, 5, 0

pytestmark = pytest.mark.skipif(machine.blas() is None, reason="this NumPy's BLAS has no threads to limit")
forks = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="no fork, or none that is safe")
both = pytest.mark.parametrize("mode", [pytest.param("processes", marks=forks), "threads"], indirect=True)


@pytest.fixture
def mode(request, monkeypatch):
    """Replicas live in forked processes, or in threads, whatever the system."""
    monkeypatch.setattr(workers, "FORKS", request.param == "processes")
    return request.param


@pytest.fixture
def born():
    """A function that gives the replicas' processes, or threads, which this test has started and which live."""
    kinds = multiprocessing, multiprocessing.dummy
    before = {child for kind in kinds for child in kind.active_children()}
    return lambda: [child for kind in kinds for child in kind.active_children() if child not in before]


@pytest.fixture
def looked_into(monkeypatch):
    """The (model, criterion) of all that compute a share, in threads, where a test can see them."""
    monkeypatch.setattr(workers, "FORKS", False)
    pairs, compute = [], workers.accumulate

    def accumulate(model, criterion, *rest):
        if all(pair[0] is not model for pair in pairs):
            pairs.append((model, criterion))
        return compute(model, criterion, *rest)

    for module in (workers, replica):
        monkeypatch.setattr(module, "accumulate", accumulate)
    return pairs


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


@both
@pytest.mark.parametrize("case", STEPS)
def test_any_number_of_workers_computes_the_same(case, mode):
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
    assert [run.workers for run in runs] == [1, 2, 3] and [len(run.team.replicas) for run in runs] == [0, 1, 2]


@both
def test_replicas_without_a_share_add_nothing_of_an_earlier_step(mode):
    run, alone = make(language_model(), 3), make(language_model(), 1)
    for n, rows in enumerate((9, 1, 2, 9, 2, 1)):
        row = run.step([batch(n, rows)])
        assert row["loss"] == pytest.approx(alone.step([batch(n, rows)])["loss"], rel=1e-12)
        assert_near(gradients(run.model), gradients(alone.model))
        assert all(max(abs(gradient).max() for gradient in its) > 1e-3 for _, its in run.team.replicas)    # it could


def test_the_shares_count_different_numbers_of_targets():
    """The tests above can fail: a plain mean over the shares would be far off."""
    batches = [batch(0, 6, 0.7), batch(0, 6, 0.2, empty=(3, 4, 5)), pairs(0)]
    counts = [[np.count_nonzero(targets != PAD) for _, targets in split(one, 2)] for one in batches]
    assert all(a != b for a, b in counts) and counts[1][1] == 0


def assert_as_by_hand(team, batch, tolerance=1e-12):
    """The team's gradients and loss are those of an equal model that knows nothing of workers."""
    model, criterion = copy.deepcopy(team.model), nt.CrossEntropyLoss(0.1, ignore_id=PAD)
    model.zero_grad()
    loss = criterion(model(batch[0]), batch[1])
    model.backward(criterion.backward())
    assert team.gradients([batch]) == (pytest.approx(loss, rel=tolerance), np.count_nonzero(batch[1]))
    assert_near(gradients(team.model), gradients(model), tolerance)


@both
@pytest.mark.parametrize("count", [1, 2, 3])
def test_gradients_are_those_of_the_model_called_by_hand(count, mode):
    team = Workers(language_model(), nt.CrossEntropyLoss(0.1, ignore_id=PAD), count)
    for n in range(2):                          # the first gradients are forgotten
        assert_as_by_hand(team, batch(n, 5, 0.4))


@both
def test_targets_that_are_all_ignored_are_refused_by_many_workers_too(mode):
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


@both
@pytest.mark.parametrize("shape, cut", [((T, T), False), ((1, 1, T, T), False), ((1, 2, 1, T), False), (None, False),
                                        ((5, 1, 1, T), True), ((5, 2, T, T), True)])
def test_a_mask_is_cut_where_it_has_the_batch_and_whole_where_it_is_broadcast(shape, cut, mode):
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


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_seed_and_count_train_bit_for_bit_alike_and_other_counts_do_not(dtype, mode):
    runs = {count: trained(count, dtype=dtype) for count in (1, 2, 3)}
    for count, run in runs.items():
        again = trained(count, dtype=dtype)
        assert_same(again.model, run.model)
        assert again.history == run.history
    assert differ(runs[1].model, runs[2].model) and differ(runs[2].model, runs[3].model)
    assert differ(runs[2].model, trained(2, seed=1, dtype=dtype).model)


@forks
def test_processes_and_threads_draw_and_compute_the_same(monkeypatch):
    runs = []
    for kind in (True, False):
        monkeypatch.setattr(workers, "FORKS", kind)
        runs.append(trained(3))
    assert_same(runs[0].model, runs[1].model)
    assert runs[0].history == runs[1].history


class Draws(nt.Module):
    """Of a model only the dropout: its gradients show what the masks have kept."""

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


def draw(team):
    """What each worker keeps in a step, (dropout, entry), the model itself first."""
    assert team.gradients([(np.zeros((6, 2)), np.zeros(6))])[1] == 6
    return [kept > 0 for kept in (team.model.last, *(kept for _, (kept,) in team.replicas))]


def different(masks):
    return len({mask.tobytes() for mask in masks}) == len(masks)


@both
def test_each_worker_draws_other_masks_and_at_each_step_new_ones(mode):
    model = Draws(5)
    rng = model.dropouts[0].rng
    state = rng.bit_generator.state
    team, again, other = (Workers(each, Switch(), 3) for each in (model, Draws(5), Draws(6)))
    assert rng.bit_generator.state == state                 # it takes a step to draw
    steps = [draw(team) for _ in range(3)]
    assert [len(masks) for masks in steps] == [3] * 3
    assert all(16 < mask.sum() < 48 for masks in steps for mask in masks)
    assert different([mask for masks in steps for mask in [*masks, *draw(other)]])
    np.testing.assert_array_equal([draw(again) for _ in range(3)], steps)                   # the seed decides
    rng.bit_generator.state = state
    assert model.dropouts[0].rng is rng
    np.testing.assert_array_equal([draw(team) for _ in range(3)], steps)        # replicas have no state of their own


def test_one_worker_draws_as_the_model_alone():
    kept = draw(Workers(Draws(5, 6), Switch(), 1))
    np.testing.assert_array_equal(kept, [[nt.Dropout(0.5, seed)(np.ones(64)) > 0 for seed in (5, 6)]])


@both
def test_generators_that_are_apart_stay_apart_and_a_shared_one_is_shared(mode):
    def drawn(*seeds):
        """By modules with generators of these seeds; None stands for the first one's."""
        first = np.random.default_rng(seeds[0])
        return draw(Workers(Draws(*(first if seed is None else seed for seed in (None, *seeds[1:]))), Switch(), 3))

    for three, others, two in zip(drawn(5, 6, None), drawn(5, 7, None), drawn(5, None)):
        assert different(three)
        np.testing.assert_array_equal(three[[0, 2]], two)   # what is drawn between them comes from another
        np.testing.assert_array_equal(others[[0, 2]], two)
        assert (three[1] != others[1]).any()


def test_replicas_share_a_generator_where_the_model_does(looked_into):
    first = np.random.default_rng(5)
    draw(Workers(Draws(first, 6, first), Switch(), 3))
    models = [model for model, _ in looked_into]
    assert len(models) == 3 and all(a.dropouts[0].rng is a.dropouts[2].rng is not a.dropouts[1].rng for a in models)
    assert len({id(dropout.rng) for model in models for dropout in model.dropouts}) == 6


@both
@pytest.mark.parametrize("kind", ["MT19937", "PCG64DXSM", "Philox", "RandomState"])
def test_generators_of_any_kind_are_given_to_the_replicas(kind, mode):
    def made():
        rng = np.random.RandomState(5) if kind == "RandomState" else np.random.Generator(getattr(np.random, kind)(5))
        return Workers(Draws(rng), Switch(), 3)

    team, again = made(), made()
    steps = [draw(team) for _ in range(2)]
    assert different([mask for masks in steps for mask in masks])
    np.testing.assert_array_equal([draw(again) for _ in range(2)], steps)


@both
def test_switches_reach_the_replicas(mode):
    team = Workers(Draws(5, 6), Switch(), 3)
    every = [(np.zeros((6, 2)), np.zeros(6))]
    assert [mask.all() for mask in draw(team)] == [False] * 3 and team.gradients(every)[0] == 1
    team.model.eval(remember=True)
    assert [mask.all() for mask in draw(team)] == [True] * 3
    team.criterion.eval()
    assert team.gradients(every)[0] == 0        # a replica that trained would add a third
    team.model.train()
    team.model.dropouts[1].training = False     # of one module alone
    assert [mask.all(axis=1).tolist() for mask in draw(team)] == [[False, True]] * 3
    team.criterion.train()
    assert team.gradients(every)[0] == 1


@both
def test_dropout_off_in_the_model_is_off_in_every_replica(mode):
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


@both
def test_a_step_in_eval_says_that_nothing_is_remembered_and_train_puts_it_right(mode):
    run = make(language_model(), 2)
    run.step([batch(0)])
    run.model.eval()
    for given in (batch(1, 4, empty=(0, 1)), batch(1)):     # of the first only the replica's share counts
        with pytest.raises(RuntimeError, match="nothing to recall"):
            run.step([given])
    run.model.train()
    run.step([batch(1)])
    assert run.steps == 2
    other = make(language_model().eval(), 2)
    other.hire(2)                               # while nothing is remembered
    with pytest.raises(RuntimeError, match="nothing to recall"):
        other.step([batch(0)])
    other.model.train()
    assert other.step([batch(0)]) == run.history[0]


@both
def test_validation_between_the_steps_disturbs_no_replica(mode):
    whole = make(language_model(0.3), 2)
    whole.fit(batch, 4, validation=[batch(9)], every=1)
    plain = make(language_model(0.3), 2)
    plain.fit(batch, 4)
    assert_same(whole.model, plain.model)


# weights

def test_replicas_share_the_weights_and_not_the_gradients(looked_into):
    model = language_model()
    model.output.bias = nt.Parameter(np.ones(3))            # one that forward does not use
    team = Workers(model, nt.CrossEntropyLoss(), 3)
    for optimizer in (None, nt.SGD(model.parameters(), 0.1), nt.Adam(model.parameters()[2:5])):
        looked_into.clear()
        team.gradients([batch(0)])
        models = sorted((pair[0] for pair in looked_into), key=lambda each: each is not model)
        assert len(models) == 3 and models[0] is model and all(machine.is_shared(p.data) for p in model.parameters())
        for same in zip(*(each.named_parameters() for each in models), strict=True):
            assert len({name for name, _ in same}) == 1 and len({p.data.ctypes.data for _, p in same}) == 1
            assert len({p.data.shape for _, p in same}) == 1
            for a, b in ((0, 1), (0, 2), (1, 2)):
                assert not np.shares_memory(same[a][1].grad, same[b][1].grad)
        for _, its in team.replicas:            # what is added up is what a replica computes
            assert any(all(p.grad is gradient for p, gradient in zip(each.parameters(), its, strict=True))
                       for each in models[1:])
            assert all(machine.is_shared(gradient) for gradient in its)
    assert all(each.output.weight is each.embedding.weight for each in models)
    assert len({id(each.embedding.weight) for each in models}) == 3


@both
def test_replicas_are_made_at_the_first_step_and_kept(mode, born):
    run = make(language_model(), 3)
    run.hire(3)
    assert not born()
    run.step([batch(0, 1)])                     # there is nothing for them in one row
    assert not born()
    run.step([batch(0)])
    replicas = born()
    assert len(replicas) == 2
    run.model.load_state_dict(language_model(seed=8).state_dict())
    for n in range(3):
        run.step([batch(n)])
    assert set(born()) == set(replicas)
    make(language_model(), 1).step([batch(0)])
    assert set(born()) == set(replicas)


@both
def test_weights_that_change_between_steps_reach_the_replicas(mode):
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


@both
def test_weights_that_no_optimizer_holds_reach_the_replicas_too(mode):
    team = Workers(language_model(), nt.CrossEntropyLoss(0.1, ignore_id=PAD), 3)
    assert_as_by_hand(team, batch(0))
    team.model.load_state_dict(language_model(seed=8).state_dict())
    assert_as_by_hand(team, batch(1))
    team.model.embedding.weight.data[3] *= 2
    assert_as_by_hand(team, batch(2))
    team.model.astype(np.float32)
    assert_as_by_hand(team, batch(3), 1e-5)
    assert team.replicas[1][1][0].dtype == np.float32
    team.model.embedding.weight.data[3] *= 2
    assert_as_by_hand(team, batch(4), 1e-5)


@both
def test_replicas_made_anew_draw_what_the_old_ones_would_have_drawn(mode, born):
    run, undisturbed = make(language_model(0.3), 3), make(language_model(0.3), 3)
    for n in range(3):
        undisturbed.step([batch(n)])
        before = born()
        run.step([batch(n)])
        assert not n or len(set(born()) - set(before)) == 2
        nt.SGD(run.model.parameters(), 0.1)     # moves the weights
    assert_same(run.model, undisturbed.model)
    assert run.history == undisturbed.history


@both
def test_two_trainers_take_turns_on_one_model(mode):
    models = [language_model(), language_model()]
    turns = [[make(model, count), make(model, count, lr=0.02)] for model, count in zip(models, (1, 2))]
    for n in range(4):
        for run in turns:
            run[n % 2].step([batch(n)])
    assert_near(models[1].state_dict(), models[0].state_dict())


# the threads of BLAS, and errors

class Watched(nt.Module):
    """A language model and a parameter whose gradient shows the threads of BLAS in forward and in backward."""

    def __init__(self):
        self.model, self.threads = language_model(), nt.Parameter(np.zeros(2))

    def forward(self, ids):
        self.seen = [machine.blas()[0]()]
        return self.model(ids)

    def backward(self, dy):
        self.seen.append(machine.blas()[0]())
        self.threads.grad += self.seen
        return self.model.backward(dy)


@pytest.fixture
def two_threads():
    """BLAS has two threads for the time of a test."""
    before = machine.set_blas_threads(2)
    yield
    machine.set_blas_threads(before)


@both
def test_blas_has_one_thread_during_a_step_of_many_and_its_own_before_and_after(two_threads, mode):
    run, alone = make(Watched(), 3), make(Watched(), 1)
    for n in range(2):
        run.step([batch(n)])
        assert machine.blas()[0]() == 2
        alone.step([batch(n)])
        assert alone.model.seen == [2, 2] and run.model.seen == [1, 1]
        assert [its[-1].tolist() for _, its in run.team.replicas] == [[1, 1]] * 2


def spoilt(values):
    """A batch of six rows with ids that no embedding has in some of them, {row: id}."""
    ids, targets = batch(0, 6)
    for row, value in values.items():
        ids[row, 2] = value
    return ids, targets


@both
@pytest.mark.parametrize("rows", [[0], [2], [3], [5], [2, 5], [0, 2, 5]])
def test_an_error_in_any_share_is_raised_as_it_is_and_the_next_step_works(two_threads, rows, mode):
    run, alone = make(Watched(), 3), make(language_model(), 1)
    spoiled = spoilt({row: 23 + row for row in rows})
    for _ in range(2):
        before = run.model.state_dict()
        with pytest.raises(IndexError) as error:
            run.step([spoiled])
        with pytest.raises(IndexError) as wanted:
            alone.step([spoilt({rows[0]: 23 + rows[0]})])   # the first
        ours, theirs = (str(caught.value).split(" at index ")[0] for caught in (error, wanted))
        assert ours == theirs and str(23 + rows[0]) in ours         # the index is that within the share
        assert machine.blas()[0]() == 2 and run.steps == len(run.history)
        for name, array in run.model.state_dict().items():
            np.testing.assert_array_equal(array, before[name])
        assert run.step([batch(1)])["loss"] == pytest.approx(alone.step([batch(1)])["loss"], rel=1e-12)
        assert_near(gradients(run.model.model), gradients(alone.model))
    assert machine.blas()[0]() == 2


class Troubled(nt.Module):
    """A language model in which some ids beyond its vocabulary call for trouble, {id: function}."""

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


@both
@pytest.mark.parametrize("row", [0, 2, 5])
def test_an_error_keeps_its_type_its_arguments_and_its_attributes(row, mode):
    run = make(Troubled({20: fail}), 3)
    with pytest.raises(Trouble) as error:
        run.step([spoilt({row: 20})])
    assert type(error.value) is Trouble and error.value.args == ("too late", 3) and error.value.hint == "earlier"


class Two(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def local():
    class Local(Exception):
        pass

    raise Local("only here")


def with_a_function():
    error = KeyError("cause")
    error.extra = lambda: 0
    raise error


@both
@pytest.mark.parametrize("trouble, wanted", [(lambda: fail(Two), "Two: too late and 3"), (local, "Local: only here"),
                                             (with_a_function, "KeyError: 'cause'")])
def test_an_error_that_cannot_be_sent_is_told_in_words_with_its_place(trouble, wanted, mode):
    with pytest.raises(RuntimeError) as error:
        make(Troubled({20: trouble}), 2).step([spoilt({5: 20})])
    assert str(error.value) == wanted
    (note,) = error.value.__notes__
    assert note.startswith("in a worker:") and "in forward\n" in note and note.rstrip().endswith(wanted)


def closed():
    raise BrokenPipeError(32, "nobody reads what forward prints")


@both
@pytest.mark.parametrize("count, row", [(1, 0), (2, 0), (2, 5)])
def test_a_broken_pipe_of_the_model_is_not_taken_for_a_lost_worker(count, row, mode):
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        make(Troubled({20: closed}), count).step([spoilt({row: 20})])


@both
@pytest.mark.parametrize("row", [0, 5])
def test_an_exit_in_any_share_is_raised_too(row, mode):
    with pytest.raises(SystemExit):
        make(Troubled({20: sys.exit}), 2).step([spoilt({row: 20})])


@forks
def test_a_process_forked_by_others_has_weights_of_its_own_and_leaves_the_replicas_alone():
    def in_a_fork(work):
        pid = os.fork()
        if not pid:
            code = 1
            try:
                work()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    alone, many = make(language_model(), 1), make(language_model(), 2)
    for run in (alone, many):
        run.step([batch(0)])
    before = alone.model.state_dict()
    in_a_fork(lambda: alone.step([batch(1)]))
    for name, array in alone.model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    replicas = list(many.team.replicas)
    in_a_fork(lambda: workers.dismiss(many.team.replicas, many.team.asker))         # as when it ends
    in_a_fork(lambda: many.team.gradients([batch(2)]))                              # with replicas of its own
    for run in (alone, many):
        run.step([batch(1)])
    assert many.team.replicas == replicas
    assert_near(many.model.state_dict(), alone.model.state_dict())


@both
@pytest.mark.parametrize("kind", [Trouble, KeyboardInterrupt])
def test_an_error_in_the_own_share_while_replicas_are_busy_does_not_confuse_the_next_step(kind, mode, born):
    run, alone = make(Troubled({20: lambda: fail(kind), 21: lambda: time.sleep(0.2)}), 3), make(language_model(), 1)
    run.step([batch(0)])
    alone.step([batch(0)])
    replicas = born()
    for n in range(2):
        with pytest.raises(kind, match="too late"):
            run.step([spoilt({0: 20, 2: 21, 5: 21})])
        assert run.step([batch(n)])["loss"] == pytest.approx(alone.step([batch(n)])["loss"], rel=1e-12)
        assert_near(gradients(run.model.model), gradients(alone.model))
        assert_ended(replicas)
        replicas = born()
        assert len(replicas) == 2


@forks
def test_a_share_may_be_larger_than_what_a_pipe_holds(monkeypatch):
    monkeypatch.setattr(workers, "FORKS", True)
    ids, targets = (np.tile(array, (3, 1500)) for array in batch(0, 6))
    model = nt.Linear(1, V, rng=0).astype(np.float64)
    team, criterion = Workers(model, nt.CrossEntropyLoss(), 3), nt.CrossEntropyLoss()
    x = ids[..., None] / V                      # 1.5 MB
    found, summed = team.gradients([(x, targets)]), gradients(model)
    assert found == (pytest.approx(criterion(model(x), targets), rel=1e-12), targets.size)
    model.zero_grad()
    model.backward(criterion.backward())
    assert_near(summed, gradients(model), 1e-11)


@forks
def test_a_share_that_cannot_be_sent_does_not_confuse_the_next_step(monkeypatch, born):
    monkeypatch.setattr(workers, "FORKS", True)
    run, alone = make(language_model(), 3), make(language_model(), 1)
    ids, targets = batch(0, 6)
    targets = targets.astype(object)
    targets[5, 0] = lambda: None                # for the second replica, when the first is busy already
    with pytest.raises(Exception, match="lambda"):
        run.step([(ids, targets)])
    assert_the_next_steps_work(run, alone, born)


def assert_ended(replicas, code=0):
    for replica in replicas:
        replica.join(30)
    assert [replica.exitcode for replica in replicas] == [code] * len(replicas)


def test_nothing_is_remembered_of_failed_or_ignored_shares(looked_into, born):
    def left():
        parts = [part for pair in looked_into for root in pair for _, part in root.named_modules()]
        return [part for part in parts if vars(part).get("_memory")]

    run = make(language_model(), 3)
    run.step([batch(0, 6, empty=(2, 3))])
    assert len(looked_into) == 3 and not left()
    for row in (0, 5):
        replicas, (ids, targets) = born(), batch(0, 6)
        targets[row, 2] = 23                    # found by the loss, when the model already remembers
        with pytest.raises(IndexError):
            run.step([(ids, targets)])
        assert_ended(replicas)
        looked_into.clear()
        run.step([batch(0, 6)])
        assert len(looked_into) == 3 and not left()


@both
@pytest.mark.parametrize("count", [1, 2, 3])
def test_other_mistakes_in_the_targets_are_not_taken_for_ignored_ones(count, mode):
    run, (ids, targets) = make(language_model(), count), batch(0, 6)
    for wrong in (targets[:, :3], np.where(np.arange(6)[:, None] < 5, targets, 23)):
        with pytest.raises((ValueError, IndexError), match="wanted one target for each|23"):
            run.step([(ids, wrong)])
    with pytest.raises(ValueError, match="wanted one target for each"):
        run.step([(ids, np.full((6, 3), PAD))])
    assert run.steps == 0


@both
@pytest.mark.parametrize("row", [0, 2, 5])
def test_a_loss_that_is_not_finite_names_the_step_and_changes_nothing(row, mode):
    run, alone = make(language_model(), 3), make(language_model(), 1)
    for each in (run, alone):
        each.step([batch(0, 6)])
    ids, targets = batch(1, 6)
    ids[ids == 4], ids[row, 2] = 5, 4           # only here
    kept = run.model.embedding.weight.data[4].copy()
    run.model.embedding.weight.data[4] = math.nan
    before = run.model.state_dict()
    with pytest.raises(ValueError, match=r"step 2: the loss is nan.*first to go bad is the value of embedding.weight"):
        run.step([(ids, targets)])
    for name, array in run.model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    run.model.embedding.weight.data[4] = kept
    for each in (run, alone):                   # and nothing of it is left in any replica
        each.step([batch(1, 6)])
    assert run.steps == 2
    assert_near(run.model.state_dict(), alone.model.state_dict())


@both
@pytest.mark.parametrize("row", [0, 5])
def test_after_a_loss_that_is_not_finite_nothing_more_is_computed(row, mode):
    run = make(Troubled({20: fail}), 3, accumulate=2)
    ids, targets = batch(0, 6)
    ids[ids == 4], ids[row, 2] = 5, 4           # only here
    run.model.model.embedding.weight.data[4] = math.nan
    with pytest.raises(ValueError, match="step 1: the loss is nan"):
        run.step([(ids, targets), spoilt({row: 20})])
    run.model.model.embedding.weight.data[4] = 1
    with pytest.raises(Trouble):
        run.step([(ids, targets), spoilt({row: 20})])


@both
@pytest.mark.parametrize("row", [0, 5])
def test_numpy_settings_of_the_caller_hold_in_every_worker(row, mode):
    def overflow():
        return np.full(3, 1e30, np.float32) * np.float32(1e30)

    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="overflow"):
        make(Troubled({20: overflow}), 2).step([spoilt({row: 20})])
    run = make(Troubled({20: overflow}), 2)
    with np.errstate(all="ignore"):
        run.step([spoilt({row: 20})])
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="overflow"):
        run.step([spoilt({row: 20})])


@both
def test_a_trainer_may_work_in_another_thread(mode):
    run, alone = make(language_model(), 3), make(language_model(), 1)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run.step, [batch(0)]).result()
    run.step([batch(1)])                        # and then in this one
    for n in range(2):
        alone.step([batch(n)])
    assert_near(run.model.state_dict(), alone.model.state_dict())


@forks
def test_a_trainer_may_work_in_a_process_that_must_not_have_children(monkeypatch):
    monkeypatch.setattr(workers, "FORKS", True)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(make(language_model(), 3).step([batch(0)])), daemon=True)
    child.start()
    assert_ended([child])
    assert ours.recv()["norm"] == pytest.approx(make(language_model(), 1).step([batch(0)])["norm"], rel=1e-12)


class Foreign:
    """It has forward and backward, and knows nothing of this package."""

    def forward(self, x):
        return 2 * x

    def backward(self, dy):
        return 2 * dy


class WithForeign(nt.Module):
    def __init__(self, foreign):
        self.model, self.foreign = language_model(), foreign

    def forward(self, ids):
        return self.foreign.forward(self.model(ids))

    def backward(self, dy):
        return self.model.backward(self.foreign.backward(dy))


class Double(nt.Module, Foreign):
    forward, backward = Foreign.forward, Foreign.backward


@both
@pytest.mark.parametrize("count", [1, 3])
def test_a_module_of_another_kind_works_as_it_does_alone(count, mode):
    run, alone = make(WithForeign(Foreign()), count), make(WithForeign(Double()), 1)
    for n in range(2):
        row = run.step([batch(n)])
        assert row["loss"] == pytest.approx(alone.step([batch(n)])["loss"], rel=1e-12)
    assert_near(run.model.state_dict(), alone.model.state_dict())


@pytest.mark.parametrize("count", [2, 3])
def test_without_a_blas_to_limit_one_worker_trains_and_a_warning_says_so(monkeypatch, born, count):
    for module in (machine, trainer, shares):
        monkeypatch.setattr(module, "blas", lambda: None)
    assert machine.set_blas_threads(1) == 0
    run = make(language_model(), count)
    with pytest.warns(UserWarning, match=f"cannot be limited, so one worker trains instead of {count}") as caught:
        run.step([batch(0)])
    assert caught[0].filename == __file__ and run.workers == run.team.count == 1 and not born()
    assert workers_for(large(), [nt.Parameter(np.zeros(10 ** 6))]) == 1


# the lives of replicas

LOST = r"^a worker has ended in the middle of a step[^\n.]*; try fewer[^\n.]*$"


def assert_the_next_steps_work(run, alone, born):
    for n in range(1, 3):
        row = run.step([batch(n)])
        assert row["loss"] == pytest.approx(alone.step([batch(n)])["loss"], rel=1e-12)
    deadline = time.monotonic() + 30            # for those that were there before
    while len(born()) > 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(born()) == 2
    ours = getattr(run.model, "model", run.model)
    assert_near(gradients(ours), gradients(alone.model))
    assert_near(ours.state_dict(), alone.model.state_dict())


@forks
@pytest.mark.parametrize("which", [0, 1])
def test_a_replica_that_is_killed_costs_one_step(monkeypatch, two_threads, born, which):
    monkeypatch.setattr(workers, "FORKS", True)
    run, alone = make(language_model(), 3), make(language_model(), 1)
    for each in (run, alone):
        each.step([batch(0)])
    replicas = sorted(born(), key=lambda child: child.name)
    before = run.model.state_dict()
    os.kill(replicas[which].pid, signal.SIGKILL)
    assert_ended([replicas[which]], -signal.SIGKILL)
    with pytest.raises(RuntimeError, match=LOST):
        run.step([batch(1)])
    assert run.steps == 1 and machine.blas()[0]() == 2
    for name, array in run.model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    assert_the_next_steps_work(run, alone, born)
    assert_ended([replicas[1 - which]])


@forks
@pytest.mark.parametrize("rows", [[2], [5], [2, 5]])
@pytest.mark.parametrize("new", [True, False])
def test_a_replica_that_is_killed_in_the_middle_of_its_share_costs_one_step(monkeypatch, two_threads, born, rows, new):
    def die():
        assert os.getpid() != TESTS
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(workers, "FORKS", True)
    run, alone = make(Troubled({20: die}), 3), make(language_model(), 1)
    for each in () if new else (run, alone):
        each.step([batch(0)])
    with pytest.raises(RuntimeError, match=LOST):
        run.step([spoilt(dict.fromkeys(rows, 20))])
    assert machine.blas()[0]() == 2
    assert_the_next_steps_work(run, alone, born)


@pytest.fixture
def ctrl_c():
    """It raises KeyboardInterrupt here, even where a shell has started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@forks
def test_a_ctrl_c_does_not_end_a_replica(monkeypatch, born, ctrl_c):
    monkeypatch.setattr(workers, "FORKS", True)
    run, alone = make(language_model(), 3), make(language_model(), 1)
    for each in (run, alone):
        each.step([batch(0)])
    replicas = born()
    for replica in replicas:
        os.kill(replica.pid, signal.SIGINT)
    assert_the_next_steps_work(run, alone, born)
    assert set(born()) == set(replicas)


@both
def test_replicas_end_with_their_trainer(mode, born):
    run, other = make(language_model(), 3), make(language_model(), 2)
    run.step([batch(0)])
    its = born()
    other.step([batch(0)])
    others = [replica for replica in born() if replica not in its]
    assert len(its) == 2 and len(others) == 1
    run.step([batch(1)])
    del run
    gc.collect()
    assert_ended(its)
    other.step([batch(1)])
    assert born() == others
    del other
    gc.collect()
    assert_ended(others)
    assert not born()


@both
def test_replicas_end_when_others_take_their_place(mode, born):
    run = make(language_model(), 3)
    for replace in (lambda: nt.SGD(run.model.parameters(), 0.1), lambda: run.hire(2), lambda: run.hire(3)):
        run.step([batch(0)])
        replicas = born()
        replace()
        run.step([batch(1)])
        assert_ended(replicas)
        assert len(born()) == run.workers - 1


SCRIPT = """
import signal
import sys
import numpy as np
import numpy_transformer as nt
from numpy_transformer.training import workers

workers.FORKS = {forks}
signal.signal(signal.SIGINT, signal.default_int_handler)
ids = np.arange(48).reshape(6, 8) % 11


def batch(n):
    if n == 3:
        print("it trains", flush=True)
    return ids[:, :-1], ids[:, 1:]


def run(count):
    model = nt.CausalLanguageModel(11, 12, 2, 2, max_len=7, rng=0)
    return nt.Trainer(model, nt.CrossEntropyLoss(), nt.SGD(model.parameters(), 0.1), workers=count)


runs = run(3), run(2)
for one in runs * 2:
    one.step([batch(0)])
{rest}
"""


@contextlib.contextmanager
def script(rest, forks=True):
    """A program that trains; its output ends when the last of its processes has ended, a replica too."""
    program = subprocess.Popen([sys.executable, "-c", SCRIPT.format(forks=forks, rest=rest)], cwd=ROOT, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    try:
        yield program
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)  # some hold its output still, so the group is theirs
        program.communicate()
        raise
    finally:
        program.stdin.close()                   # if it waits for more


@pytest.mark.parametrize("forked", [pytest.param(True, marks=forks), False])
@pytest.mark.parametrize("rest, code", [("", 0), ("sys.exit(3)", 3)])
def test_a_program_that_ends_leaves_nothing_behind(forked, rest, code):
    with script(rest, forked) as program:
        assert program.communicate(timeout=30) == ("", "") and program.returncode == code


@forks
def test_replicas_end_when_the_program_is_killed():
    with script("batch(3)\nsys.stdin.read()") as program:
        assert program.stdout.readline() == "it trains\n"
        program.kill()
        assert program.communicate(timeout=30) == ("", "") and program.returncode == -signal.SIGKILL


@forks
def test_a_ctrl_c_goes_to_all_and_is_told_once():
    with script("run(3).fit(batch, 10 ** 9)") as program:   # besides those that wait
        assert program.stdout.readline() == "it trains\n"
        os.killpg(program.pid, signal.SIGINT)
        out, err = program.communicate(timeout=30)
    assert program.returncode == -signal.SIGINT and "KeyboardInterrupt: stopped after step" in err
    assert err.count("stopping after this step") == err.count("Traceback") == 1


# how many

def large(rows=6, length=400):
    ids = np.zeros((rows, length), int)
    return ids, ids


def test_little_work_gets_one_worker_and_much_as_many_as_cores_and_rows(monkeypatch):
    assert shares.WORTHWHILE == (10 ** 7 if workers.FORKS else 10 ** 8)
    monkeypatch.setattr(shares, "WORTHWHILE", 10 ** 7)
    monkeypatch.setattr(shares, "cores", lambda: 4)
    parameters = [nt.Parameter(np.zeros(shape, np.float32)) for shape in ((100, 60), (4000,))]          # 10^4
    assert workers_for(batch(), language_model().parameters()) == 1
    assert workers_for(large(6, 300), parameters) == 1      # 1.8 * 10^7
    assert workers_for(large(5, 400), parameters) == 2      # 2.0
    assert workers_for(large(6, 600), parameters) == 3      # 3.6
    assert workers_for(large(6, 4000), parameters) == 4
    assert workers_for(large(3, 4000), parameters) == 3 and workers_for(large(1, 4000), parameters) == 1
    assert workers_for(((large(6, 4000)[0], None), large(6, 4000)[1]), parameters) == 4     # inputs as a tuple
    assert workers_for((np.zeros((6, 500, 3)), large(6, 500)[1]), parameters) == 3          # vectors: 3000, not 9000
    assert workers_for((np.zeros(24000, int), np.zeros(24000, int)), parameters) == 1       # a sequence alone
    assert workers_for((np.zeros(24000, int), large(6, 4000)[1]), parameters) == 1
    assert workers_for((large(6, 4000)[0], np.zeros(5, int)), parameters) == 1              # no axis in common
    assert workers_for((large(6, 4000)[0], np.array(1.0)), parameters) == 1
    monkeypatch.setattr(shares, "cores", lambda: 1)
    assert workers_for(large(6, 4000), parameters) == 1


def test_a_trainer_without_a_count_asks_at_its_first_step(monkeypatch):
    asked = []
    monkeypatch.setattr(trainer, "workers_for", lambda *work: asked.append(work) or 2)
    run = make(language_model(), None)
    assert run.workers is None
    run.fit(batch, 3)
    assert run.workers == run.team.count == 2 and len(asked) == 1 and asked[0][1] == run.parameters
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

@both
@pytest.mark.parametrize("count", [2, 3])
def test_a_resumed_run_takes_the_count_of_the_file_and_ends_bit_for_bit_like_an_undisturbed_one(tmp_path, count, mode):
    whole, first, second = (make(language_model(0.3, seed), n) for seed, n in ((0, count), (0, count), (0, None)))
    whole.fit(batch, 6)
    first.fit(batch, 3, checkpoint=tmp_path / "run.npz")
    assert read_checkpoint(tmp_path / "run.npz")[1]["workers"] == count
    second.load(tmp_path / "run.npz")
    assert second.workers == second.team.count == count
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
    assert meta.pop("workers") == 1
    write_checkpoint(tmp_path / "old.npz", arrays, meta)
    for states in ([], [{}, {}]):               # of the replicas beside the first, as they were kept once
        write_checkpoint(tmp_path / "list.npz", arrays, {**meta, "workers": states})
        listed = make(language_model(0.3), None)
        listed.load(tmp_path / "list.npz")
        assert listed.workers == 1 + len(states)
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
    assert code == 0 and meta["settings"]["workers"] == meta["workers"] == 2


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
    assert not machine.is_shared(buffer.data)   # nobody has asked for workers
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


MATRICES = {"weight_decay": 0.3, "decay": lambda p: p.data.ndim >= 2}


@pytest.mark.parametrize("block", [1, 4, 7, 2 ** 17])
@pytest.mark.parametrize("kind, options", [("SGD", {"momentum": 0.8}), ("Adam", {"betas": (0.7, 0.9), "eps": 0.01}),
                                           ("AdamW", {"weight_decay": 0.3}), ("AdamW", MATRICES)])
def test_steps_in_blocks_are_those_of_each_number_alone(monkeypatch, kind, options, block):
    monkeypatch.setattr(optimizers, "BLOCK", block)
    rng = np.random.default_rng(3)
    parameters = [nt.Parameter(rng.standard_normal(shape)) for shape in ((2, 3), (5,), (), (4,), (3, 1))]
    wanted = [p.data.ravel().tolist() for p in parameters]
    states = [[{} for _ in numbers] for numbers in wanted]
    rules = [options if options.get("decay", lambda p: True)(p) else options | {"weight_decay": 0} for p in parameters]
    optimizer = getattr(nt, kind)(parameters, 0.1, **options)
    for t in range(1, 5):
        optimizer.lr = 0.1 / t
        for p, numbers, kept, rule in zip(parameters, wanted, states, rules):
            p.grad = rng.standard_normal(p.data.shape)
            numbers[:] = [scalar_step(kind, w, float(g), state, t, optimizer.lr, rule)
                          for w, g, state in zip(numbers, p.grad.ravel(), kept)]
        optimizer.step()
        for p, numbers in zip(parameters, wanted):
            np.testing.assert_allclose(p.data.ravel(), numbers, rtol=1e-12)


def test_parameters_of_a_dtype_and_kind_lie_in_one_buffer_and_the_state_with_them():
    rng = np.random.default_rng(6)
    parameters = [nt.Parameter(rng.standard_normal(shape).astype(dtype)) for shape, dtype in (
        ((2, 3), "f4"), ((5,), "f4"), ((4, 1), "f4"), ((2, 2), "f8"), ((3,), "f4"), ((7,), "f8"))]
    chosen = [parameters[0], parameters[2], parameters[4]]
    for decay in (chosen, lambda p: any(p is one for one in chosen)):
        optimizer = nt.AdamW(parameters, 0.1, decay=decay)
        assert [[parameters.index(p) for p in buffer.parameters] for buffer in optimizer.buffers] == [
            [0, 2, 4], [1], [3, 5]]
        assert [id(p) for p in optimizer.decay] == [id(p) for p in chosen]
        assert [parameters.index(p) for p in optimizer.parameters] == [0, 2, 4, 1, 3, 5]
        for values in (optimizer.m, optimizer.v):
            assert [(a.shape, a.dtype) for a in values] == [(p.data.shape, p.data.dtype) for p in optimizer.parameters]
    for kind in (nt.SGD, nt.Adam, nt.AdamW):
        assert len(kind(parameters, 0.1).buffers) == 2


class Large(nt.Module):
    """A language model beside a parameter that brings it up to a size."""

    def __init__(self, size=2 ** 19):
        self.model = language_model()
        self.rest = nt.Parameter(np.ones(size - self.model.num_parameters()))

    def forward(self, ids):
        return self.model(ids)

    def backward(self, dy):
        self.rest.grad += np.sum(dy * dy)
        return self.model.backward(dy)


def test_only_many_parameters_are_worth_a_pool_of_threads():
    for size, count, pooled in ((2 ** 19, 2, True), (2 ** 19 - 1, 2, False), (2 ** 19, 1, False)):
        run = make(Large(size), count)
        run.hire(count)
        assert (run.team.map is not map) == pooled and run.optimizer.map == run.team.map


@both
def test_threads_that_share_the_blocks_of_a_step_change_nothing(monkeypatch, mode):
    monkeypatch.setattr(optimizers, "BLOCK", 5000)
    many, one = (nt.Trainer(m, nt.CrossEntropyLoss(), nt.AdamW(m.parameters(), eps=0.1), workers=n)
                 for m, n in ((Large(), 3), (Large(), 1)))
    used, update = [], nt.AdamW.update
    monkeypatch.setattr(nt.AdamW, "update", lambda self, w, *rest: used.append(
        (self, len(w), threading.current_thread())) or update(self, w, *rest))
    for n in range(3):
        many.step([batch(n)])
        one.step([batch(n)])
    for run in (many, one):
        lengths = [length for optimizer, length, _ in used if optimizer is run.optimizer]
        assert sum(lengths) == 3 * 2 ** 19 and max(lengths) == 5000
    assert {thread for optimizer, _, thread in used if optimizer is one.optimizer} == {threading.main_thread()}
    assert {thread for optimizer, _, thread in used if optimizer is many.optimizer} - {threading.main_thread()}
    assert_near(many.model.model.state_dict(), one.model.model.state_dict())


@pytest.mark.parametrize("model", [language_model, Large])
def test_an_error_while_blocks_are_updated_is_raised(model):
    run = make(model(), 2)
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


ARRAYS = {
    "float64": np.linspace(-1, 1, 12).reshape(3, 4), "float32": np.ones((2, 1, 3), np.float32), "int": np.arange(7),
    "bool": np.array([True, False, True]), "complex": np.array([[1 + 2j, 3j]]), "0-d": np.array(2.5),
    "empty": np.zeros(0), "empty matrix": np.zeros((3, 0)), "every other": np.arange(10.0)[::2],
    "columns first": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "many pages": np.arange(3e4)}


@pytest.mark.parametrize("case", ARRAYS)
def test_a_shared_copy_is_a_copy(case):
    array = ARRAYS[case]
    shared = machine.shared_copy(array)
    assert shared.shape == array.shape and shared.dtype == array.dtype and shared.flags.writeable
    np.testing.assert_array_equal(shared, array)
    assert not np.shares_memory(shared, array) and not np.shares_memory(shared, machine.shared_copy(array))
    for view in (shared, shared[...], shared[None].T, shared.reshape(-1)[1:], np.split(shared.ravel(), [1])[0]):
        assert machine.is_shared(view)
    for other in (array, array[...], shared.copy(), shared[None] + 0, shared.astype(complex)):
        assert not machine.is_shared(other)
    before = array.copy()
    shared[...] = 1
    np.testing.assert_array_equal(array, before)


@forks
def test_a_forked_process_and_this_one_see_what_the_other_writes_into_a_shared_copy():
    shared, plain = machine.shared_copy(np.zeros((3, 4))), np.zeros(3)
    scalar, view = machine.shared_copy(np.array(1.0)), shared.ravel()[4:8]
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def write():
        theirs.recv()
        plain[:] = scalar[...] = view.sum()
        view[1] = 7

    child = context.Process(target=write)
    child.start()
    shared[1] = 2                               # the child has begun
    ours.send("go on")
    child.join(30)
    assert child.exitcode == 0 and scalar == 8 and not plain.any()
    np.testing.assert_array_equal(shared, [[0] * 4, [2, 7, 2, 2], [0] * 4])


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


def test_processes_are_forked_where_that_is_safe():
    assert workers.FORKS == (hasattr(os, "fork") and sys.platform != "darwin")


def test_importing_the_package_changes_nothing_of_the_process():
    code = ("import ctypes, json, numpy\n"
            "called = []\n"
            "load = ctypes.CDLL\n"
            "ctypes.CDLL = lambda *names, **more: called.append(names) or load(*names, **more)\n"
            "import multiprocessing, threading, numpy_transformer\n"
            "from numpy_transformer.training import machine\n"
            "print(json.dumps([called, machine.blas.cache_info().currsize, threading.active_count(),\n"
            "                  multiprocessing.active_children()]))\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], 0, 1, []]


@pytest.mark.parametrize("name", ["workers", "shares", "replica"])
def test_the_page_stays_a_page(name):
    assert len((ROOT / f"numpy_transformer/training/{name}.py").read_text().splitlines()) <= 120


@both
def test_a_copy_of_a_trainer_goes_on_by_itself_with_workers_of_its_own(mode):
    run, alone = make(language_model(0.3), 2), make(language_model(0.3), 2)
    for each in (run, alone):
        each.fit(batch, 2)
    twin = copy.deepcopy(run)
    assert twin.team is None and twin.workers == 2
    for each in (twin, run, alone):
        each.fit(batch, 2)
    assert_same(run.model, alone.model)
    assert_same(twin.model, alone.model)
    assert not any(np.shares_memory(p.data, q.data) for p, q in zip(run.parameters, twin.parameters))


def test_trainers_side_by_side_in_threads_fork_nothing_and_compute_the_same(born):
    alone = make(language_model(), 1)
    alone.step([batch(0)])
    runs = [make(language_model(), 2) for _ in range(4)]
    threads = [threading.Thread(target=run.step, args=([batch(0)],), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not born()
    for run in runs:
        assert len(run.team.replicas) == 1
        assert_near(run.model.state_dict(), alone.model.state_dict())
