"""The loop beyond the single step: accumulation, epochs, validation, early stopping, Ctrl-C."""

import math
import os
import re
import select
import signal
import struct

import numpy as np
import pytest

import numpy_transformer as nt
from numpy_transformer.training.evaluation import evaluate, evaluate_accuracy
from numpy_transformer.training.progress import Progress

V, T, PAD = 7, 6, 0


def model(seed=0, dropout=0.0):
    return nt.CausalLanguageModel(V, 12, 2, 2, max_len=T, dropout=dropout, rng=seed)


def batch(n, rows=3, ignored=0.0):
    """Ids, and as targets the ids one later; a share of the targets is ignored."""
    rng = np.random.default_rng([3, n])
    ids = rng.integers(1, V, (rows, T + 1))
    targets = ids[:, 1:].copy()
    targets[rng.random(targets.shape) < ignored] = PAD
    return ids[:, :-1], targets


def trainer(network=None, accumulate=1, lr=0.1, clip=None, momentum=0.9):
    network = network or model()
    return nt.Trainer(network, nt.CrossEntropyLoss(0.1, ignore_id=PAD), nt.SGD(network.parameters(), lr, momentum),
                      clip=clip, accumulate=accumulate)


def test_accumulated_gradients_are_those_of_the_big_batch():
    """Micro-batches of different sizes with very different numbers of ignored targets, in float64."""
    parts = [batch(0, 2, 0.0), batch(1, 5, 0.9), batch(2, 3, 0.4)]
    counts = [np.count_nonzero(targets) for _, targets in parts]
    assert counts[0] == 12 and counts[1] < 6                # a plain mean of the three would be far off
    whole = tuple(np.concatenate(arrays) for arrays in zip(*parts))
    small, big = trainer(model().astype(np.float64), accumulate=3), trainer(model().astype(np.float64))
    row, reference = small.step(parts), big.step([whole])
    for (name, p), q in zip(small.model.named_parameters(), big.model.parameters(), strict=True):
        assert np.linalg.norm(p.grad - q.grad) <= 1e-12 * max(np.linalg.norm(q.grad), 1e-3), name
    assert row["tokens"] == sum(counts) == reference["tokens"]
    assert row["loss"] == pytest.approx(reference["loss"], rel=1e-12)
    assert row["norm"] == pytest.approx(reference["norm"], rel=1e-12)


def test_each_step_takes_the_next_batches_in_turn():
    asked = []

    def batches(n):
        asked.append(n)
        return batch(n)

    run = trainer(accumulate=3)
    run.fit(batches, steps=2)
    run.fit(batches, steps=1)
    assert asked == list(range(9)) and run.steps == 3


def test_a_list_of_batches_and_its_function_train_alike_and_epochs_count_them():
    listed = [batch(n) for n in range(5)]
    runs = [trainer() for _ in range(3)]
    runs[0].fit(listed, epochs=2)
    runs[1].fit([((ids,), targets) for ids, targets in listed], steps=10)       # inputs as a tuple
    runs[2].fit(lambda n: listed[n % 5], steps=10)
    assert [run.steps for run in runs] == [10] * 3
    for p, q, r in zip(*(run.model.parameters() for run in runs)):
        assert (p.data == q.data).all() and (p.data == r.data).all()
    uneven = trainer(accumulate=2)
    uneven.fit(listed, epochs=2, validation=[batch(9)])     # 5 steps of 2 batches hold each of the 5 twice
    assert uneven.steps == 5
    assert [row["step"] for row in uneven.history if "validation" in row] == [3, 5]


def test_evaluation_weights_by_the_targets_that_count_and_leaves_the_model_as_it_was():
    network = model(dropout=0.5)
    parts = [batch(0, 2, 0.0), batch(1, 5, 0.9)]
    whole = tuple(np.concatenate(arrays) for arrays in zip(*parts))
    criterion = nt.CrossEntropyLoss(ignore_id=PAD)
    states = [rng.bit_generator.state for rng in (network.dropout.rng,)]
    assert evaluate(network, criterion, parts) == pytest.approx(evaluate(network, criterion, [whole]), rel=1e-6)
    assert network.training and network.remembering and criterion.remembering
    assert [network.dropout.rng.bit_generator.state] == states                  # dropout drew nothing
    assert not any(part.__dict__.get("_saved") for part in (*dict(network.named_modules()).values(), criterion))
    assert evaluate(network.eval(), criterion, parts) == evaluate(network, criterion, parts)
    assert not network.training


def test_evaluation_is_the_mean_over_the_targets_that_count():
    ids, _ = batch(2, 2)
    network, parts = model(), [batch(0, 2, 0.5), batch(1, 5, 0.9), (ids, ids)]      # untrained, it repeats many ids
    losses, right = [], []
    for ids, targets in parts:
        z = network.eval()(ids).astype(float)
        log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
        losses += [-log_p[b, t, targets[b, t]] for b, t in np.argwhere(targets != PAD)]
        right += [log_p[b, t].argmax() == targets[b, t] for b, t in np.argwhere(targets != PAD)]
    assert evaluate(network, nt.CrossEntropyLoss(ignore_id=PAD), parts) == pytest.approx(np.mean(losses), rel=1e-5)
    measures = evaluate_accuracy(network, nt.CrossEntropyLoss(ignore_id=PAD), parts)
    assert 0 < np.mean(right) < 1
    assert measures == pytest.approx({"validation": np.mean(losses), "accuracy": np.mean(right)}, rel=1e-5)


def test_validation_takes_place_every_100_steps_and_at_the_end_unless_told_otherwise():
    run = trainer()
    run.fit(batch, 103, validation=lambda: 1.0)
    assert [row["step"] for row in run.history if "validation" in row] == [100, 103]


def test_each_fit_has_its_own_patience_also_after_a_loaded_run(tmp_path):
    first, second = trainer(), trainer()
    first.fit(batch, 2, measuring(0.5, 0.4), every=1, patience=2, watch="f1", checkpoint=tmp_path / "run.npz")
    second.load(tmp_path / "run.npz")
    second.fit(batch, 1, measuring(0.3), every=1, patience=2, watch="f1")       # goes on: the second that is not better
    assert second.best == {"f1": 0.5, "step": 1, "since": 2}
    second.fit(batch, 2, measuring(0.1, 0.2), every=1, patience=2, watch="f1")  # starts anew
    assert second.best == {"f1": 0.2, "step": 5, "since": 0}


def test_without_a_terminal_progress_is_a_line_at_every_tenth(capsys):
    with Progress(40, "work") as progress:
        for _ in range(40):
            progress.advance()
    assert capsys.readouterr().err.splitlines() == [f"work: {done}/40" for done in range(4, 41, 4)]


def test_early_stopping_restores_the_best_weights():
    losses = iter([3.0, 2.0, 2.5, 1.0, 1.5, 1.0, 0.1])
    run, kept = trainer(), {}

    def validation():
        kept[run.steps] = run.model.state_dict()
        return next(losses)

    history = run.fit(batch, steps=100, validation=validation, every=2, patience=2)
    assert run.steps == 12 and run.best["step"] == 8 and run.best["loss"] == 1.0     # equal is not better
    assert [row.get("validation") for row in history[1::2]] == [3.0, 2.0, 2.5, 1.0, 1.5, 1.0]
    for name, array in run.model.state_dict().items():
        np.testing.assert_array_equal(array, kept[8][name])
    assert any((kept[12][name] != kept[8][name]).any() for name in kept[8])


def measuring(*scores, name="f1"):
    """A validation function whose loss always rises while the score takes these values."""
    measured = iter(enumerate(scores))

    def validation():
        n, score = next(measured)
        return {"validation": 1.0 + n, name: score}
    return validation


def test_early_stopping_watches_a_score_whose_higher_values_are_better():
    run, kept = trainer(), {}
    validation = measuring(0.2, 0.6, 0.5, 0.6, 0.9)

    def measure():
        kept[run.steps] = run.model.state_dict()
        return validation()

    run.fit(batch, steps=100, validation=measure, every=1, patience=2, watch="f1")
    assert run.steps == 4 and run.best == {"f1": 0.6, "step": 2, "since": 2}            # equal is not better, with a higher loss
    for name, array in run.model.state_dict().items():
        np.testing.assert_array_equal(array, kept[2][name])


def test_among_equal_scores_the_lower_loss_is_better():
    run, values = trainer(), iter([(0.9, 0.5), (0.7, 0.8), (0.6, 0.8), (0.65, 0.8), (0.5, 0.7), (0.6, 0.8)])
    weights = []

    def measure():
        weights.append(run.model.state_dict())
        return dict(zip(("validation", "f1"), next(values)))

    run.fit(batch, steps=100, validation=measure, every=1, patience=3, watch="f1")
    assert run.best == {"f1": 0.8, "step": 3, "since": 3} and run.steps == 6
    for name, array in run.model.state_dict().items():
        np.testing.assert_array_equal(array, weights[2][name])


def test_early_stopping_watches_another_loss_whose_lower_values_are_better():
    run = trainer()
    run.fit(batch, steps=100, validation=measuring(3.0, 2.0, 2.5, 2.0, name="word_loss"), every=1, patience=2,
            watch="word_loss")
    assert run.steps == 4 and run.best == {"word_loss": 2.0, "step": 2, "since": 2}


def test_a_resumed_run_goes_on_watching_the_same_score(tmp_path):
    first, second = trainer(), trainer()
    first.fit(batch, 3, measuring(0.5, 0.7, 0.6), every=1, patience=2, watch="f1", checkpoint=tmp_path / "run.npz")
    best = first.best_weights
    second.load(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="the loaded run watched 'f1', not 'loss'; watch the same, or start"):
        second.fit(batch, 3, measuring(0.5), every=1, patience=2)
    second.load(tmp_path / "run.npz")
    second.fit(batch, 50, measuring(0.65, 0.9), every=1, patience=2, watch="f1")
    assert second.steps == 4 and second.best == {"f1": 0.7, "step": 2, "since": 2}
    for name, array in second.model.state_dict().items():
        np.testing.assert_array_equal(array, best[name])


@pytest.mark.parametrize("validation, watch, match", [
    (measuring(0.5), "accuracy", "watch = 'accuracy' is not measured; the validation gives 'validation', 'f1'; choose"),
    ([batch(0)], "f1", "watch = 'f1' is not measured on a list of batches, only the loss is; pass"),
    (lambda: 1.0, "f1", "watch = 'f1' is not measured; the validation gives 'validation'"),
    (measuring(math.nan), "f1", "step 1: the f1 that patience watches is nan, not a finite number; watch the loss")])
def test_what_cannot_be_watched_is_named(validation, watch, match):
    with pytest.raises(ValueError, match=match):
        trainer().fit(batch, 3, validation, every=1, patience=2, watch=watch)


def test_the_tokens_that_models_read():
    """Counted by hand: PAD = 0 and masked tokens are hidden; without hidden padding every position is read."""
    ids = np.array([[5, 3, 0, 0], [1, 2, 4, 6]])
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0]], bool)
    language, pair = model(), nt.EncoderDecoder(V, V, 8, 2, 1, 8, rng=0)
    assert language.count_tokens(ids) == 8 and language.count_tokens(ids, mask) == 5
    assert pair.count_tokens(ids, ids[:, :3]) == 6 + 5
    assert pair.count_tokens(ids, ids[:, :3], mask) == 5 + 5
    assert nt.EncoderDecoder(V, V, 8, 2, 1, 8, pad_id=None).count_tokens(ids, ids) == 16
    for padding, expected in ((True, 6), (False, 8)):
        for Model in (nt.SequenceClassifier, nt.TokenClassifier, nt.TextEncoder):
            assert Model(V, 8, 2, 1, mask_padding=padding).count_tokens(ids) == expected
    hidden = nt.MaskedLanguageModel(V, 8, 2, 1)
    assert hidden.count_tokens(ids, None, None, np.array([[1], [2]])) == 6 and hidden.count_tokens(ids, mask) == 5


def test_the_rate_shown_is_of_tokens_and_not_of_labels(capsys, monkeypatch):
    """Each look at the clock is a second later, so a step takes one second."""
    seconds = iter(range(1000))
    monkeypatch.setattr("numpy_transformer.training.trainer.time.perf_counter", lambda: float(next(seconds)))
    classifier = nt.SequenceClassifier(V, 8, 2, 1, max_len=T, rng=0)
    examples = [(np.array([[1, 2, 3, 0], [4, 5, 0, 0]]), np.array([0, 1]))]
    run = nt.Trainer(classifier, nt.BinaryCrossEntropyLoss(), nt.SGD(classifier.parameters(), 0.1), accumulate=2,
                     workers=1)
    row, = run.fit(examples, steps=1)
    assert row["tokens"] == 4 and re.search(r"\b10 tok/s", capsys.readouterr().err)      # targets; tokens of 2 batches
    linear = nt.Linear(3, 2)
    plain = nt.Trainer(linear, nt.CrossEntropyLoss(), nt.SGD(linear.parameters(), 0.1), workers=1)
    plain.fit([(np.ones((4, 3), np.float32), np.array([0, 1, 0, 1]))], steps=1)
    assert re.search(r"\b4 tok/s", capsys.readouterr().err)


def test_each_fit_has_its_own_patience():
    losses = iter([2.0, 3.0, 5.0, 5.0, 4.0])
    run = trainer()
    run.fit(batch, steps=9, validation=lambda: next(losses), every=1, patience=1)
    assert run.steps == 2 and run.best["loss"] == 2.0
    run.fit(batch, steps=9, validation=lambda: next(losses), every=1, patience=1)
    assert run.steps == 4 and run.best == {"loss": 5.0, "step": 3, "since": 1}
    run.fit(batch, steps=1)
    assert run.best is None and not run.best_weights        # else a later save would hold weights of long ago


def test_a_validation_loss_that_is_not_finite_stops():
    with pytest.raises(ValueError, match="step 1: the validation loss is nan"):
        trainer().fit(batch, steps=9, validation=lambda: math.nan, every=1)


def test_a_validation_function_may_leave_the_model_in_eval():
    run = trainer(model(dropout=0.1))
    run.fit(batch, steps=3, validation=lambda: float(bool(run.model.eval())), every=1)
    assert run.steps == 3 and run.model.training


def test_other_values_that_a_validation_measures_are_kept_printed_and_saved(tmp_path, capsys):
    """Early stopping minds the loss alone; the others are columns of the history, also in the file."""
    measured = iter([(0.9, 1), (0.5, 3), (0.7, 9), (0.8, 5)])

    def validation():
        loss, right = next(measured)
        return {"validation": loss, "words_right": np.float32(right)}

    run = trainer()
    rows = run.fit(batch, 8, validation, every=2, patience=2, checkpoint=tmp_path / "run.npz")
    assert [row.get("words_right") for row in rows] == [None, 1, None, 3, None, 9, None, 5]
    assert run.best["step"] == 4 and "   words right 9.0000" in capsys.readouterr().out
    again = trainer()
    again.load(tmp_path / "run.npz")
    assert again.history == rows and all(type(value) is float for row in rows for name, value in row.items()
                                         if name not in ("step", "tokens"))


def test_batches_whose_targets_are_all_ignored_weigh_nothing():
    parts = [batch(0), (batch(1)[0], np.full((3, T), PAD)), batch(2)]
    small, big = (trainer(model().astype(np.float64), accumulate=n) for n in (3, 2))
    assert small.step(parts)["tokens"] == big.step([parts[0], parts[2]])["tokens"]
    for p, q in zip(small.model.parameters(), big.model.parameters()):
        np.testing.assert_array_equal(p.grad, q.grad)
    with pytest.raises(ValueError, match="are ignored"):
        small.step([parts[1], parts[1]])
    with pytest.raises(ValueError, match="are ignored"):
        trainer().step([parts[1]])
    wrong = batch(0)[0], batch(0)[1][:, :3]                 # other mistakes are not taken for it
    for order in ([wrong], [parts[1], wrong], [parts[0], wrong], [wrong, parts[0]]):
        with pytest.raises(ValueError, match="wanted one target for each row"):
            trainer().step(order)


def test_training_continues_when_nothing_reads_its_progress(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

        flush = isatty = lambda self: False

    monkeypatch.setattr("sys.stderr", Closed())
    monkeypatch.setattr("sys.stdout", Closed())
    run = trainer()
    run.fit(batch, steps=4, validation=[batch(9)], every=2)
    assert run.steps == 4


def test_the_best_weights_are_restored_at_the_end_too():
    losses, run, kept = iter([3.0, 1.0, 2.0]), trainer(), {}

    def validation():
        kept[run.steps] = run.model.state_dict()
        return next(losses)

    run.fit(batch, steps=3, validation=validation, every=1, patience=5)
    for name, array in run.model.state_dict().items():
        np.testing.assert_array_equal(array, kept[2][name])


def test_fit_trains_a_model_that_was_in_eval():
    run = trainer(model().eval())
    assert len(run.fit(batch, steps=2)) == 2 and run.model.training


def test_the_constant_schedule_warms_up_and_stays():
    optimizer = nt.SGD([nt.Parameter(np.ones(2))], 9.0)
    schedule = nt.ConstantSchedule(optimizer, 0.8, warmup=4)
    rates = [optimizer.lr]
    for _ in range(6):
        schedule.step()
        rates.append(optimizer.lr)
    np.testing.assert_allclose(rates, [0.2, 0.2, 0.4, 0.6, 0.8, 0.8, 0.8])
    assert nt.ConstantSchedule(optimizer, 0.5).optimizer.lr == 0.5


def test_ctrl_c_finishes_the_step_saves_and_stops(tmp_path, capfd):
    def batches(n):
        if n == 4:
            os.kill(os.getpid(), signal.SIGINT)             # while the fifth step runs
        return batch(n)

    run, path = trainer(), tmp_path / "run.npz"
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="stopped after step 5, saved in .*run.npz"):
        run.fit(batches, steps=50, checkpoint=nt.Checkpoint(path, every=1000))
    assert signal.getsignal(signal.SIGINT) is before and run.steps == 5
    assert "stopping after this step" in capfd.readouterr().err
    other = trainer()
    other.load(path)
    assert other.steps == 5
    undisturbed = trainer()
    undisturbed.fit(batch, steps=9)
    other.fit(batch, steps=4)
    for p, q in zip(other.model.parameters(), undisturbed.model.parameters()):
        assert (p.data == q.data).all()


def test_a_second_ctrl_c_stops_at_once(tmp_path):
    def batches(n):
        if n == 2:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("it went on")
        return batch(n)

    run, path = trainer(), tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        run.fit(batches, steps=9, checkpoint=path)
    assert run.steps == 2 and not path.exists()


def test_a_terminal_of_80_columns_shows_the_whole_bar(monkeypatch):
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with open(follower, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        trainer().fit(batch, steps=3, title="seq2seq")
        output = ""
        while select.select([leader], [], [], 0.2)[0]:      # the terminal hands it over bit by bit
            output += os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert re.search(r"seq2seq: 3/3 \|.{4}\| [\d:]+, loss \S+  lr \S+  norm \S+  [\d,]+ tok/s *[\r\n]", output)
    assert max(len(line.rstrip()) for line in re.split(r"[\r\n]", output)) <= 80


@pytest.mark.parametrize("call, match", [
    (lambda: trainer(accumulate=0), "accumulate must be"), (lambda: trainer(clip=0), "clip = 0 must be above 0"),
    (lambda: trainer().fit(batch, -1), "steps must be"), (lambda: trainer().fit(batch, 2.5), "steps must be"),
    (lambda: trainer().fit(batch, 3, every=0), "every = 0"),
    (lambda: trainer().fit(batch, 3, []), "validation contains no"),
    (lambda: trainer().fit(batch, 3, (batch(n) for n in range(2))), "validation, a generator, has no length"),
    (lambda: trainer().fit(batch), "give one of them"), (lambda: trainer().fit(batch, 1, epochs=1), "give one of them"),
    (lambda: trainer().fit(batch, 3, patience=2), "needs validation"),
    (lambda: trainer().fit(batch, 3, validation=[batch(0)], patience=0), "patience = 0"),
    (lambda: trainer().fit((batch(n) for n in range(3)), 3), "generator"),
    (lambda: trainer().fit(batch, epochs=2), "has no length"),
    (lambda: trainer().fit([], 3), "batches contains no batches"),
    (lambda: nt.ConstantSchedule(nt.SGD([nt.Parameter(np.ones(2))], 1.0), 1.0, -1), "warmup = -1")])
def test_what_cannot_be_fitted_is_refused(call, match):
    with pytest.raises((ValueError, TypeError), match=match):
        call()


def test_training_lowers_the_loss():
    run = trainer(lr=0.3, clip=1.0)
    listed = [batch(n) for n in range(2)]
    history = run.fit(listed, epochs=60)
    assert history[0]["loss"] > 1.7 > 1.2 > history[-1]["loss"] and math.isfinite(history[-1]["norm"])


def test_what_is_printed_of_a_run_says_what_it_is(tmp_path):
    model = nt.Linear(2, 3, rng=0)
    optimizer = nt.AdamW(model.parameters(), lr=0.002)
    trainer = nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, nt.ConstantSchedule(optimizer, 0.002))
    trainer.step([((np.ones((4, 2)),), np.array([0, 1, 2, 0]))])
    assert repr(trainer) == "Trainer(Linear, CrossEntropyLoss, AdamW, steps=1)"
    assert repr(optimizer) == "AdamW(lr=0.002, 9 parameters, step 1)"
    assert repr(trainer.schedule) == "ConstantSchedule(step 1, lr=0.002)"
    path = tmp_path / "run.npz"
    assert repr(nt.Checkpoint(path, every=5, keep=2)) == f"Checkpoint({str(path)!r}, every=5, keep=2)"
