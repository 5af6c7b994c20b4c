"""train --resume, --patience and --curves for encoders: what stays in a run and what stops it."""

import shutil

import pytest
from helpers.commands import refused, run
from helpers.encoder_runs import BASE, FILES, SIZES, assert_same, state, stop_after, trained

from numpy_transformer.tasks import TASKS, ClassifierTask
from numpy_transformer.training.checkpoint import Checkpoint, read_checkpoint
from numpy_transformer.training.trainer_state import read_history


@pytest.mark.parametrize("kind, scores", [
    ("mlm", {"accuracy"}),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (
        ("classifier", {"accuracy", "training_accuracy"}), ("tagger", {"f1"}), ("text2text", set())))])
def test_a_run_goes_on_bit_for_bit(capsys, runs, tmp_path, kind, scores):
    base = [*BASE[kind], "--data", runs / FILES[kind], "--schedule", "constant"]
    whole = trained(capsys, kind, tmp_path / "whole.npz", *base)
    first = trained(capsys, kind, tmp_path / "run.npz", *base, "--steps", 3)
    assert "resuming" not in first
    text = trained(capsys, kind, tmp_path / "run.npz", "--resume", "--steps", 6)
    assert "resuming at step 3" in text
    assert_same(state(tmp_path / "run.npz"), state(tmp_path / "whole.npz"))
    rows, undisturbed = (read_history(read_checkpoint(tmp_path / name)[0]) for name in ("run.npz", "whole.npz"))
    assert rows == undisturbed
    assert [set(row) - {"step", "loss", "lr", "norm", "tokens"} for row in rows] == [
        {"validation", *scores} if row["step"] % 3 == 0 else set() for row in rows]
    assert text.splitlines()[-2:] == whole.splitlines()[-2:]        # what it reached
    before = state(tmp_path / "run.npz")
    assert "resuming at step 6" in trained(capsys, kind, tmp_path / "run.npz", "--resume")
    assert_same(state(tmp_path / "run.npz"), before)


def test_epochs_can_be_added(capsys, runs, tmp_path):
    base = [*SIZES, "--batch-size", 8, "--data", runs / "reviews.csv", "--schedule", "constant", "--warmup", 0,
            "--dropout", 0.1]
    trained(capsys, "classifier", tmp_path / "whole.npz", *base, "--epochs", 2)
    trained(capsys, "classifier", tmp_path / "run.npz", *base, "--epochs", 1)
    text = trained(capsys, "classifier", tmp_path / "run.npz", "--resume", "--epochs", 2)
    assert "resuming at step 7" in text and "at step 14" in text
    assert_same(state(tmp_path / "run.npz"), state(tmp_path / "whole.npz"))


def test_steps_are_not_silently_ignored_on_resume(capsys, runs, tmp_path):
    base = [*SIZES, "--batch-size", 8, "--data", runs / "reviews.csv", "--warmup", 0]
    trained(capsys, "classifier", tmp_path / "run.npz", *base, "--epochs", 1)
    try:
        code, text, err = run(capsys, "train", "classifier", "--resume", "--out", tmp_path / "run.npz", "--steps", 9)
    except SystemExit as stop:
        code, text, err = stop.code, "", "--steps"
    assert code == 2 and "--steps" in err or code == 0 and "at step 9\n" in text


@pytest.mark.slow
def test_a_run_does_not_go_on_with_other_texts_or_labels(capsys, runs, tmp_path):
    for kind, old, new in (("classifier", "great", "grand"), ("classifier", None, None),
                           ("tagger", "I-per", "I-loc"), ("tagger", "Rome", "Oslo"), ("mlm", "the", "a")):
        data, out = tmp_path / FILES[kind], tmp_path / "run.npz"
        shutil.copy(runs / FILES[kind], data)
        trained(capsys, kind, out, *BASE[kind], "--steps", 2, "--warmup", 0, "--data", data, "--overwrite")
        before, text = out.read_bytes(), data.read_text()
        data.write_text(text.replace(old, new) if old else
                        text.replace(",neg", ",?").replace(",pos", ",neg").replace(",?", ",pos"))
        line = refused(capsys, "train", kind, "--resume", "--out", out, "--steps", 4)
        assert "are not those" in line and out.read_bytes() == before


def test_a_run_does_not_go_on_with_another_validation_set(capsys, tmp_path):
    data, out = tmp_path / "t.csv", tmp_path / "run.npz"
    rows = [f"{mood} film {n},{mood},{'dev' if n == 5 else 'train'}\n" for n in range(6) for mood in ("bad", "good")]
    data.write_text("text,label,split\n" + "".join(rows))
    trained(capsys, "classifier", out, *BASE["classifier"], "--data", data, "--steps", 3)
    data.write_text(data.read_text().replace("good film 5", "fine film 5"))
    assert "are not those" in refused(capsys, "train", "classifier", "--resume", "--out", out, "--steps", 4)


def test_early_stopping_keeps_the_best_weights(capsys, runs, tmp_path, monkeypatch):
    base = [*SIZES, "--data", runs / "reviews.csv", "--schedule", "constant", "--warmup", 0, "--batch-size", 8]
    trained(capsys, "classifier", tmp_path / "two.npz", *base, "--steps", 2)
    losses = iter([3.0, 1.0, 2.0, 1.5, 0.1])
    monkeypatch.setattr(ClassifierTask, "make_validation", lambda *_: lambda: {"validation": next(losses), "accuracy": 0.25})
    out = tmp_path / "run.npz"
    text = trained(capsys, "classifier", out, *base, "--patience", 2, "--validate-every", 1, "--steps", 30)
    assert "stopped early: the loss did not improve in 2 validations" in text and "best validation loss 1.0000 at step 2" in text
    assert read_checkpoint(out)[1]["step"] == 4
    assert_same(state(out), state(tmp_path / "two.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("kind, watch", [("classifier", "accuracy"), ("tagger", "f1"), ("mlm", "accuracy")])
def test_early_stopping_watches_a_score_also_when_resumed(capsys, runs, tmp_path, monkeypatch, kind, watch):
    base = [*SIZES, "--data", runs / FILES[kind], "--schedule", "constant", "--warmup", 0, "--batch-size", 8]
    trained(capsys, kind, tmp_path / "two.npz", *base, "--steps", 2)
    scores = iter([0.3, 0.5, 0.4, 0.45])
    monkeypatch.setattr(TASKS[kind], "make_validation", lambda *_: lambda: {"validation": 1.0, watch: next(scores)})
    out, options = tmp_path / "run.npz", ["--patience", 2, "--watch", watch, "--validate-every", 1, "--steps", 30]
    monkeypatch.setattr(TASKS[kind], "results", lambda *_: [])
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", stop_after(3))
        code, _, error = run(capsys, "train", kind, *base, *options, "--save-every", 1, "--out", out)
    assert code == 130, error
    assert f"--watch is {watch} in the run that is resumed, not loss; leave it out" in refused(
        capsys, "train", kind, "--resume", "--out", out, "--watch", "loss")
    code, text, error = run(capsys, "train", kind, "--resume", "--out", out)
    assert code == 0, error
    assert f"stopped early: the {watch} did not improve in 2 validations" in text
    assert f"best validation {watch} 0.5000 at step 2" in text
    assert_same(state(out), state(tmp_path / "two.npz"))
    assert f"weights: the best, of step 2, validation {watch} 0.5000" in run(capsys, "info", out)[1]


@pytest.fixture
def figures(monkeypatch):
    """The figures that are written, as they are."""
    from matplotlib.figure import Figure
    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), save(self, *a, **k))[1])
    return figures


CURVES = {"classifier": {"accuracy": "validation accuracy", "training_accuracy": "training accuracy"},
          "tagger": {"f1": "validation F1"}, "mlm": {"accuracy": "validation accuracy"}}


@pytest.mark.slow
@pytest.mark.parametrize("command, kind", [("train", "classifier"), ("plot", "tagger"), *(
    pytest.param(*pair, marks=pytest.mark.slow) for pair in
    (("train", "tagger"), ("train", "mlm"), ("plot", "classifier"), ("plot", "mlm")))])
def test_scores_stand_in_the_curves(capsys, runs, tmp_path, figures, command, kind):
    out = tmp_path / "run.npz"
    shutil.copy(runs / f"{kind}.npz", out)
    if command == "train":
        trained(capsys, kind, out, "--resume", "--curves", tmp_path / "c.png")
    else:
        assert run(capsys, "plot", "history", "--run", out, "--out", tmp_path / "c.png")[0] == 0
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    rows = read_history(read_checkpoint(out)[0])
    lines = {line.get_label(): line.get_xydata().tolist() for axes in figures[0].axes for line in axes.lines}
    for name, label in CURVES[kind].items():
        assert lines.get(label) == [[row["step"], row[name]] for row in rows if name in row], lines.keys()
