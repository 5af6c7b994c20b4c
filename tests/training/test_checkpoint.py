"""Checkpoints: bit-exact resume, whole at every moment, and clear words about files that are none."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from helpers.commands import python

import numpy_transformer as nt
from numpy_transformer.outputs import check_output
from numpy_transformer.training.checkpoint import read_checkpoint, weights, write_checkpoint
from numpy_transformer.training.npz import NpzArchive

V, T = 7, 6


def batch(n):
    ids = np.random.default_rng([3, n]).integers(0, V, (3, T + 1))
    return ids[:, :-1], ids[:, 1:]


def trainer(optimizer="AdamW", schedule="cosine", d_model=12, tie=True, accumulate=2):
    """Dropout on, so that the random generator matters."""
    model = nt.CausalLanguageModel(V, d_model, 2, 2, max_len=T, dropout=0.2, tie_weights=tie, rng=0)
    optimizer = {"AdamW": nt.AdamW, "Adam": nt.Adam, "SGD": lambda p: nt.SGD(p, 0.1, 0.9)}[optimizer](
        model.parameters())
    schedule = {"cosine": lambda o: nt.CosineSchedule(o, 1e-2, 1e-3, 3, 20),
                "noam": lambda o: nt.NoamSchedule(o, 12, 4),
                "constant": lambda o: nt.ConstantSchedule(o, 1e-2, 5), None: lambda o: None}[schedule](optimizer)
    return nt.Trainer(model, nt.CrossEntropyLoss(), optimizer, schedule, clip=1.0, accumulate=accumulate)


def snapshot(run):
    """Everything about a run that can be compared from outside."""
    arrays = [p.data.copy() for p in run.model.parameters()]
    arrays += [a.copy() for group in run.optimizer.state().values() for a in group]
    return arrays, (run.steps, run.optimizer.t, run.optimizer.lr, run.best, run.history,
                    run.schedule and run.schedule.count, run.model.dropout.rng.bit_generator.state)


def assert_same(a, b):
    for x, y in zip(a[0], b[0], strict=True):
        np.testing.assert_array_equal(x, y)
        assert x.dtype == y.dtype
    assert a[1] == b[1]


@pytest.mark.parametrize("optimizer, schedule", [
    ("Adam", "noam"), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in
                        (("AdamW", "cosine"), ("SGD", "constant"), ("SGD", None)))])
def test_a_resumed_run_ends_bit_for_bit_like_an_uninterrupted_one(tmp_path, optimizer, schedule):
    options = {"validation": [batch(1000), batch(1001)], "every": 4, "patience": 9}
    whole = trainer(optimizer, schedule)
    whole.fit(batch, 12, **options)
    first = trainer(optimizer, schedule)
    first.fit(batch, 12, **options, checkpoint=nt.Checkpoint(tmp_path / "run.npz", every=1, keep=12))
    for cut in (1, 4, 7):
        second = trainer(optimizer, schedule)
        second.load(tmp_path / f"run.step-{cut:07d}.npz")
        assert second.steps == cut and second.history == whole.history[:cut]
        assert all(type(row[name]) is int for row in second.history for name in ("step", "tokens"))
        second.fit(batch, 12 - cut, **options)
        assert_same(snapshot(second), snapshot(whole))


def test_without_the_generator_the_optimizer_or_the_count_it_would_not_be_exact(tmp_path):
    """The test above can fail: each part of the state, left out, changes the end."""
    whole = trainer()
    whole.fit(batch, 6)
    spoils = [lambda run: setattr(run.model.dropout.rng.bit_generator, "state", np.random.PCG64(1).state),
              lambda run: run.optimizer.m[3].fill(0), lambda run: setattr(run.optimizer, "t", 0),
              lambda run: run.schedule.go_to(0), lambda run: setattr(run, "steps", 2)]
    trainer_at_3 = trainer()
    trainer_at_3.fit(batch, 3)
    trainer_at_3.save(tmp_path / "run.npz")
    for spoil in spoils:
        run = trainer()
        run.load(tmp_path / "run.npz")
        spoil(run)
        run.fit(batch, 3)
        assert any((p.data != q.data).any() for p, q in zip(run.model.parameters(), whole.model.parameters()))


def test_a_resumed_run_goes_on_with_the_patience_that_is_left(tmp_path):
    losses = {1: 2.0, 2: 1.0}
    first = trainer()
    first.fit(batch, 4, validation=lambda: losses.get(first.steps, 5.0), every=1, patience=4,
              checkpoint=tmp_path / "run.npz")
    best = first.model.state_dict()
    second = trainer()
    second.load(tmp_path / "run.npz")
    second.fit(batch, 50, validation=lambda: losses.get(second.steps, 5.0), every=1, patience=4)
    assert second.steps == 6 and second.best == {"loss": 1.0, "step": 2, "since": 4}
    for name, array in second.model.state_dict().items():
        np.testing.assert_array_equal(array, best[name])


def test_a_checkpoint_is_a_plain_npz_file(tmp_path):
    """Names, no pickle, meta as JSON, a tied parameter once; loading it by hand gives the same model."""
    run = trainer()
    run.fit(batch, 2, checkpoint=nt.Checkpoint(tmp_path / "run.npz", meta={"tokenizer": "ünï", "model": {"d": 12}}))
    with np.load(tmp_path / "run.npz", allow_pickle=False) as file:
        names, meta = set(file.files), json.loads(str(file["meta"]))
        for name, p in run.model.named_parameters():
            np.testing.assert_array_equal(file[f"model/{name}"], p.data)
            assert f"optimizer/m/{name}" in names and f"optimizer/v/{name}" in names
    assert "model/output.weight" not in names and {name.split("/")[0] for name in names} == {
        "model", "optimizer", "history", "meta"}
    assert meta["tokenizer"] == "ünï" and meta["model"] == {"d": 12} and meta["step"] == 2
    assert meta["data"]["next_batch"] == 4 and "dropout.rng" in meta["generators"]
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_a_model_loaded_from_the_file_gives_the_same_logits_and_stays_tied(tmp_path):
    run = trainer()
    run.fit(batch, 2, checkpoint=tmp_path / "run.npz")
    other = nt.CausalLanguageModel(V, 12, 2, 2, max_len=T, rng=9)
    other.load_state_dict(weights(read_checkpoint(tmp_path / "run.npz")[0]))
    ids = batch(0)[0]
    np.testing.assert_array_equal(other.eval()(ids), run.model.eval()(ids))
    assert other.output.weight is other.embedding.weight


def test_weights_are_the_best_where_early_stopping_kept_them(tmp_path):
    losses = iter([2.0, 1.0, 3.0])
    run = trainer()
    run.fit(batch, 3, validation=lambda: next(losses), every=1, patience=4, checkpoint=tmp_path / "run.npz")
    arrays, meta = read_checkpoint(tmp_path / "run.npz")
    assert meta["best"] == {"loss": 1.0, "step": 2, "since": 1}
    name = "decoder.norm.gamma"
    np.testing.assert_array_equal(weights(arrays)[name], run.model.state_dict()[name])
    assert (arrays[f"model/{name}"] != weights(arrays)[name]).any()     # what a resumed run goes on with


def test_only_the_latest_saves_stay_and_their_mean_is_the_mean(tmp_path):
    checkpoint, kept = nt.Checkpoint(tmp_path / "r[1].npz", every=2, keep=3), {}
    run = trainer()
    save = checkpoint.save
    checkpoint.save = lambda t, keep: (save(t, keep), kept.update({t.steps: t.model.state_dict()}))
    run.fit(batch, 9, checkpoint=checkpoint)
    assert [path.name for path in checkpoint.kept()] == [f"r[1].step-000000{n}.npz" for n in (6, 8, 9)]
    mean = nt.average_checkpoints(checkpoint.kept())
    for name, array in mean.items():
        np.testing.assert_allclose(array, sum(kept[n][name].astype(np.float64) for n in (6, 8, 9)) / 3, rtol=1e-12)
    run.model.load_state_dict(mean)
    with pytest.raises(ValueError, match="no checkpoints to average"):
        nt.average_checkpoints([])
    trainer(d_model=14).fit(batch, 1, checkpoint=tmp_path / "other.npz")
    with pytest.raises(ValueError, match="other.npz.* has other parameters"):
        nt.average_checkpoints([*checkpoint.kept(), tmp_path / "other.npz"])


def test_kept_saves_equal_those_of_an_uninterrupted_run(tmp_path):
    """Neither Ctrl-C between two saves, nor another run of that name, nor a name that is a link changes them."""
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    trainer().fit(batch, 9, checkpoint=nt.Checkpoint(tmp_path / "link.npz", every=3, keep=9))
    checkpoint = nt.Checkpoint(tmp_path / "link.npz", every=2, keep=3)
    run = trainer()

    def batches(n):
        if n == 2 * 4:
            os.kill(os.getpid(), signal.SIGINT)             # in the fifth step
        return batch(n)

    with pytest.raises(KeyboardInterrupt):
        run.fit(batches, 9, checkpoint=checkpoint)
    assert read_checkpoint(tmp_path / "real.npz")[1]["step"] == 5
    run = trainer()
    run.load(tmp_path / "link.npz")
    run.fit(batch, 4, checkpoint=checkpoint)
    assert [path.name for path in checkpoint.kept()] == [f"link.step-000000{n}.npz" for n in (6, 8, 9)]
    assert [read_checkpoint(path)[1]["step"] for path in checkpoint.kept()] == [6, 8, 9]
    assert (tmp_path / "link.npz").is_symlink()


def test_runs_whose_names_end_differently_stay_apart(tmp_path):
    for name in ("run.1", "run.2"):
        trainer().fit(batch, 2, checkpoint=nt.Checkpoint(tmp_path / name, every=1, keep=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "run.1", "run.1.step-0000002.npz", "run.2", "run.2.step-0000002.npz"]


def test_the_mean_is_that_of_the_latest_weights_and_not_of_the_best(tmp_path):
    run, checkpoint, kept = trainer(), nt.Checkpoint(tmp_path / "run.npz", every=1, keep=2), {}
    losses = {1: 0.5}

    def validation():
        kept[run.steps] = run.model.state_dict()
        return losses.get(run.steps, 1.0)

    run.fit(batch, 9, validation, every=1, patience=3, checkpoint=checkpoint)
    assert read_checkpoint(tmp_path / "run.npz")[1]["step"] == run.steps == 4       # the end by patience is saved
    for name, array in nt.average_checkpoints(checkpoint.kept()).items():
        np.testing.assert_allclose(array, (kept[3][name].astype(np.float64) + kept[4][name]) / 2, rtol=1e-12)


def test_arrays_that_do_not_fit_into_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    write_checkpoint(tmp_path / "run.npz", {"model/a": np.zeros(1000), "optimizer/a": np.zeros(3000)}, {})
    monkeypatch.setattr("numpy_transformer.training.checkpoint.available_memory", lambda: 9000)
    monkeypatch.setattr(NpzArchive, "__getitem__", only_meta(NpzArchive.__getitem__))
    with pytest.raises(MemoryError, match="run.npz' need 0.0 GB, but 0.0 GB are available"):
        read_checkpoint(tmp_path / "run.npz")
    monkeypatch.undo()
    monkeypatch.setattr("numpy_transformer.training.checkpoint.available_memory", lambda: 9000)
    chosen = read_checkpoint(tmp_path / "run.npz", lambda names: [name for name in names if name.startswith("model/")])[0]
    assert list(chosen) == ["model/a"]


def only_meta(read):
    return lambda self, name: read(self, name) if name == "meta" else pytest.fail(f"{name} was read")


@pytest.mark.parametrize("meta, match", [
    ({"format": "bpe"}, r"the keys \['format'\]"), ({"step": 1, "best": 2}, r"the keys \['best', 'step'\]"),
    ({"path": Path("x")}, "not JSON serializable")])
def test_meta_that_could_not_be_read_again_is_refused_at_once(tmp_path, meta, match):
    with pytest.raises((ValueError, TypeError), match=match):
        nt.Checkpoint(tmp_path / "run.npz", meta=meta)


def two_generators(kind=np.random.PCG64):
    run = trainer("SGD", None)
    run.model.decoder.blocks[1].dropout.rng = np.random.Generator(kind(5))
    return run


def test_every_generator_and_a_learning_rate_set_by_hand_are_restored(tmp_path):
    run = two_generators()
    run.optimizer.lr = 0.025
    run.fit(batch, 2, checkpoint=tmp_path / "run.npz")
    other = two_generators()
    other.load(tmp_path / "run.npz")
    assert other.optimizer.lr == 0.025
    run.fit(batch, 2)
    other.fit(batch, 2)
    assert_same(snapshot(run), snapshot(other))
    for stranger in (trainer("SGD", None), two_generators(np.random.MT19937)):
        before = snapshot(stranger)
        with pytest.raises(ValueError, match="random generators: "):
            stranger.load(tmp_path / "run.npz")
        assert_same(snapshot(stranger), before)


def test_an_earlier_save_of_the_same_run_can_be_loaded(tmp_path):
    run = trainer()
    run.fit(batch, 1, checkpoint=tmp_path / "run.npz")
    run.fit(batch, 2, [batch(9)], every=1, patience=5)
    run.load(tmp_path / "run.npz")
    assert run.steps == 1 and run.best is None and not run.best_weights


def test_a_run_in_a_thread_saves_too(tmp_path):
    run = trainer()
    thread = threading.Thread(target=run.fit, args=(batch, 2), kwargs={"checkpoint": tmp_path / "run.npz"})
    thread.start()
    thread.join()
    assert read_checkpoint(tmp_path / "run.npz")[1]["step"] == 2


@pytest.mark.parametrize("options, match", [
    ({"d_model": 14}, r"model/embedding.weight is float32 \(7, 12\) in the file, float32 \(7, 14\) here.*more arrays"),
    ({"tie": False}, "model/output.weight is missing in the file"),
    ({"optimizer": "SGD"}, "optimizer: AdamW in the file"),
    ({"schedule": "noam"}, "CosineSchedule in the file, NoamSchedule here"), ({"schedule": None}, "schedule"),
    ({"accumulate": 3}, "batches in a step: 2 in the file, 3 here")])
def test_a_checkpoint_of_another_run_changes_nothing(tmp_path, options, match):
    run = trainer()
    run.fit(batch, 2, checkpoint=tmp_path / "run.npz")
    other = trainer(**options)
    other.fit(batch, 1)
    before = snapshot(other)
    with pytest.raises(ValueError, match=f"nothing was loaded.*{match}"):
        other.load(tmp_path / "run.npz")
    assert_same(snapshot(other), before)


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_truncations_and_flipped_bytes_are_noticed_or_harmless(stride, tmp_path):
    path, good = tmp_path / "bad.npz", tmp_path / "good.npz"
    write_checkpoint(good, {"model/w": np.arange(6.0).reshape(2, 3)}, {"step": 3})
    data, wanted = good.read_bytes(), read_checkpoint(good)
    for end in range(0, len(data), 7 * stride):
        path.write_bytes(data[:end])
        with pytest.raises(ValueError, match="is not a checkpoint, or is damaged"):
            read_checkpoint(path)
    refused = 0
    for place in range(0, len(data), stride):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1:])
        try:
            arrays, meta = read_checkpoint(path)
        except ValueError as error:
            assert "bad.npz" in str(error) and "\n" not in str(error)
            refused += 1
        else:                                               # a date in the archive, say
            assert meta == wanted[1]
            np.testing.assert_array_equal(arrays["model/w"], wanted[0]["model/w"])
    assert refused > len(data) // (2 * stride)


class Trap:
    """Unpickling it leaves a trace."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_nothing_is_unpickled(tmp_path):
    trap = np.empty(1, object)
    trap[0] = Trap(str(tmp_path / "sprung"))
    np.savez(tmp_path / "trap.npz", meta=trap)
    with pytest.raises(ValueError, match="is not a checkpoint"):
        read_checkpoint(tmp_path / "trap.npz")
    assert not (tmp_path / "sprung").exists()


def foreign_files():
    yield "empty", lambda path: path.write_bytes(b"")
    yield "text", lambda path: path.write_text("once upon a time")
    yield "npy", lambda path: path.open("wb").write(b"\x93NUMPY\x01\x00")
    yield "other npz", lambda path: np.savez(path.open("wb"), a=np.ones(3))
    yield "pickled", lambda path: np.savez(path.open("wb"), meta=np.array([{"a": 1}], dtype=object))
    yield "zip", lambda path: zipfile.ZipFile(path, "w").writestr("meta.npy", "x")
    yield "meta no JSON", lambda path: np.savez(path.open("wb"), meta=np.array("{"))
    yield "meta a list", lambda path: np.savez(path.open("wb"), meta=np.array("[]"))
    yield "other format", lambda path: np.savez(path.open("wb"), meta=np.array('{"format": "x"}'))


def test_another_format_is_named(tmp_path):
    np.savez(tmp_path / "x.npz", meta=np.array(json.dumps({"format": "numpy_transformer checkpoint, version 2"})))
    with pytest.raises(ValueError, match="has the format 'numpy_transformer checkpoint, version 2' instead of"):
        read_checkpoint(tmp_path / "x.npz")


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in foreign_files()])
def test_foreign_files_are_named_and_change_nothing(tmp_path, make):
    path, run = tmp_path / "file.npz", trainer()
    make(path)
    before = snapshot(run)
    with pytest.raises(ValueError, match="file.npz") as error:
        run.load(path)
    assert "\n" not in str(error.value)
    assert_same(snapshot(run), before)


def test_a_checkpoint_without_a_run_and_missing_files_are_named(tmp_path):
    write_checkpoint(tmp_path / "mine.npz", {"model/w": np.ones(2)}, {})
    with pytest.raises(ValueError, match="mine.npz' is not the checkpoint of a run"):
        trainer().load(tmp_path / "mine.npz")
    with pytest.raises(ValueError, match="no weights"):
        weights({})
    for missing in (tmp_path / "no.npz", tmp_path):
        with pytest.raises(ValueError, match="cannot read"):
            read_checkpoint(missing)


@pytest.mark.parametrize("where", ["no-folder/run.npz", "."])
def test_a_path_that_cannot_be_written_is_found_at_once(tmp_path, where):
    with pytest.raises(ValueError, match="cannot write"):
        nt.Checkpoint(tmp_path / where)
    with pytest.raises(ValueError, match="cannot write"):
        trainer().fit(lambda n: pytest.fail("it trained"), 3, checkpoint=tmp_path / where)


def test_checking_that_a_path_is_writable_changes_no_file(tmp_path):
    (tmp_path / "run.npz").write_text("precious")
    check_output(tmp_path / "run.npz")
    check_output(tmp_path / "new.npz")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


def test_a_link_is_followed_and_not_replaced(tmp_path):
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    write_checkpoint(tmp_path / "link.npz", {}, {"step": 1})
    assert (tmp_path / "link.npz").is_symlink() and read_checkpoint(tmp_path / "real.npz")[1]["step"] == 1


def test_a_full_disk_leaves_the_previous_checkpoint_whole(tmp_path):
    """A limit on file sizes takes the place of a full disk: the write fails in the middle."""
    code = f"""
import resource, sys
import numpy as np
from numpy_transformer.training.checkpoint import write_checkpoint
path = {str(tmp_path / "run.npz")!r}
write_checkpoint(path, {{"model/w": np.ones(100)}}, {{"step": 1}})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    write_checkpoint(path, {{"model/w": np.ones(100_000)}}, {{"step": 2}})
except OSError as error:
    print(error)
"""
    run = python("-c", code)
    assert run.stdout.startswith("cannot save") and "is unchanged" in run.stdout, run.stderr
    assert read_checkpoint(tmp_path / "run.npz")[1]["step"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


TINY = ["--d-model", "8", "--num-heads", "2", "--num-layers", "1", "--d-ff", "8", "--context", "8", "--batch-size", "2",
        "--dropout", "0.1", "--steps", "150", "--save-every", "1", "--validate-every", "7", "--warmup", "5", "--seed",
        "4"]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 3])
def test_a_run_that_is_killed_and_resumed_ends_bit_for_bit_like_an_uninterrupted_one(tmp_path, kills):
    """kill -9 at random moments, between and inside saves, then --resume."""
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 40)
    command = [sys.executable, "-m", "numpy_transformer", "train", "lm", "--text", str(tmp_path / "text.txt"), *TINY,
               "--patience", "50"]
    options = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    subprocess.run([*command, "--out", str(tmp_path / "calm.npz")], check=True, **options)
    killed, out, draw = [], tmp_path / "killed.npz", random.Random(0)
    for attempt in itertools.count(1):
        process = subprocess.Popen([*command, "--out", str(out), "--resume"], **options)
        before = step_of(out)
        while process.poll() is None and attempt <= kills and step_of(out) < before + 8:
            time.sleep(0.001)
        time.sleep(draw.random() * 0.02)
        if attempt <= kills:
            process.kill()
        _, errors = process.communicate()
        if attempt > kills:
            assert process.returncode == 0, errors.decode()
            break
        killed.append(step_of(out))
    assert all(before < after for before, after in zip([0, *killed], [*killed, 150]))
    calm, disturbed = (read_checkpoint(tmp_path / name) for name in ("calm.npz", "killed.npz"))
    assert calm[1] == disturbed[1] and calm[0].keys() == disturbed[0].keys()
    for name, array in calm[0].items():
        np.testing.assert_array_equal(array, disturbed[0][name], err_msg=name)


def step_of(path):
    """The step of a checkpoint that another process may replace at any moment; 0 if there is none yet."""
    return read_checkpoint(path)[1]["step"] if path.exists() else 0


def test_a_file_is_on_the_disk_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    seen = []
    for name in ("fsync", "replace"):
        def spy(*given, name=name, function=getattr(os, name)):
            seen.append(name)
            return function(*given)

        monkeypatch.setattr(os, name, spy)
    write_checkpoint(tmp_path / "run.npz", {"x": np.zeros(2)}, {"step": 0})
    assert seen[:2] == ["fsync", "replace"]
