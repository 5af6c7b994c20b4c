"""train, generate, translate, evaluate, info: their output, and one clear line for bad input."""

import io
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from helpers.commands import refused, run

import numpy_transformer as nt
from numpy_transformer.cli import main
from numpy_transformer.data import CharTokenizer
from numpy_transformer.data.splits import hold_out_sources
from numpy_transformer.tasks import LanguageModelTask, SequenceToSequenceTask
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.training.checkpoint import read_checkpoint

TEXT = "the quick brown fox jumps over the lazy dog.\n" * 40
SMALL = ["--d-model", 8, "--num-heads", 2, "--num-layers", 1, "--d-ff", 8, "--steps", 6, "--warmup", 2,
         "--batch-size", 4]
LM = ["train", "lm", *SMALL, "--context", 8]
PAIRS = ["train", "seq2seq", *SMALL, "--tokenizer", "char"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text, two line-aligned files, and a tiny run of each kind."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT)
    words = "one two three four five six seven eight nine ten".split()
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(words, rng.integers(2, 7))) for _ in range(120)]
    (folder / "a.txt").write_text("\n".join(lines) + "\n")
    (folder / "b.txt").write_text("\n".join(line.upper() for line in lines) + "\n")
    assert main([*map(str, LM), "--text", str(folder / "text.txt"), "--out", str(folder / "lm.npz")]) == 0
    assert main([*map(str, PAIRS), "--source", str(folder / "a.txt"), "--target", str(folder / "b.txt"),
                 "--out", str(folder / "pairs.npz"), "--average", "2", "--save-every", "2"]) == 0
    return folder


def test_training_says_what_it_does_and_where_it_saved(capsys, folder, tmp_path):
    code, out, err = run(capsys, *LM, "--text", folder / "text.txt", "--out", tmp_path / "run.npz",
                         "--validate-every", 3, "--curves", tmp_path / "c.png")
    assert code == 0 and "1,800 characters" in out and "parameters; 6 steps with batches of 4" in out
    assert len(re.findall(r"^step +\d+   training loss \d\.\d+   validation loss \d\.\d+$", out, re.M)) == 2
    assert re.search(r"lm: 6/6  loss \d\.\d+  lr \S+  norm \d\.\d+  [\d,]+ tok/s", err)
    assert f"saved '{tmp_path / 'run.npz'}' at step 6" in out
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    arrays, meta = read_checkpoint(tmp_path / "run.npz")
    assert meta["kind"] == "lm" and meta["settings"]["d_model"] == 8 and meta["model"]["vocab_size"] == 29
    assert meta["tokenizers"][0]["kind"] == "char" and len(meta["corpus"]["sha256"]) == 64
    a, b = load_run(folder / "lm.npz").model, load_run(tmp_path / "run.npz").model
    for p, q in zip(a.parameters(), b.parameters()):        # the same seed
        np.testing.assert_array_equal(p.data, q.data)


def test_the_seed_decides(capsys, folder, tmp_path):
    run(capsys, *LM, "--text", folder / "text.txt", "--out", tmp_path / "run.npz", "--seed", 2)
    a, b = load_run(folder / "lm.npz").model, load_run(tmp_path / "run.npz").model
    assert any((p.data != q.data).any() for p, q in zip(a.parameters(), b.parameters()))


@pytest.mark.parametrize("kind", ["lm", "pairs"])
@pytest.mark.parametrize("tokenizer", ["bpe", "word"])
def test_other_tokenizers_train_and_are_used_again(capsys, folder, tmp_path, kind, tokenizer):
    files = (["--text", folder / "text.txt"] if kind == "lm" else
             ["--source", folder / "a.txt", "--target", folder / "b.txt", "--tie"])
    code, out, _ = run(capsys, *(LM if kind == "lm" else PAIRS), *files, "--tokenizer", tokenizer, "--vocab-size", 270,
                       "--out", tmp_path / "run.npz")
    assert code == 0
    if kind == "lm":
        code, out, _ = run(capsys, "generate", tmp_path / "run.npz", "--prompt", "the quick", "--length", 5)
        assert out.startswith("the quick")
    else:
        loaded = load_run(tmp_path / "run.npz")
        assert loaded.model.source_embedding is loaded.model.target_embedding
        code, out, _ = run(capsys, "translate", tmp_path / "run.npz", "one two", "three")
        assert len(out.splitlines()) == 2
    assert code == 0


def test_a_text_is_generated_from_a_seed(capsys, folder):
    def texts(*options):
        code, out, err = run(capsys, "generate", folder / "lm.npz", "--prompt", "the ", "--length", 30, *options)
        assert code == 0 and not err
        return out

    assert texts("--seed", 3) == texts("--seed", 3) != texts("--seed", 4)
    assert texts().startswith("the ") and len(texts()) == 4 + 30 + 1
    assert texts("--temperature", 0) == texts("--temperature", 0, "--seed", 9) == texts("--top-k", 1)
    assert texts("--top-p", 1e-9) == texts("--top-k", 1)
    assert texts("--samples", 3).count("-" * 40) == 2
    whole = texts("--seed", 5)[4:-1]
    stop = whole[7:9]
    assert texts("--seed", 5, "--stop", stop) == "the " + whole.split(stop)[0] + "\n"
    code, out, _ = run(capsys, "generate", folder / "lm.npz", "--length", 12)
    assert code == 0 and len(out) == 13


def test_a_draft_guesses_and_the_greedy_text_is_the_same(capsys, folder, tmp_path):
    def text(*options):
        code, out, err = run(capsys, "generate", folder / "lm.npz", "--prompt", "the ", "--length", 40, *options)
        assert code == 0
        return out, err

    plain, _ = text("--temperature", 0)
    for draft in (folder / "lm.npz", "ngram"):
        out, err = text("--temperature", 0, "--draft", draft)
        assert out == plain and re.fullmatch(r"\d\.\d\d tokens per call of the model\n", err)
        assert (err == "5.00 tokens per call of the model\n") == (draft != "ngram")         # the model itself is always right
    assert text("--draft", "ngram", "--samples", 2, "--seed", 3) == text("--draft", "ngram", "--samples", 2, "--seed", 3)
    assert text("--draft", "ngram", "--samples", 2)[0].count("-" * 40) == 1
    code, _, _ = run(capsys, *LM, "--text", folder / "text.txt", "--tokenizer", "bpe", "--vocab-size", 260,
                     "--out", tmp_path / "b.npz")
    assert code == 0
    assert "b.npz has another tokenizer than" in refused(capsys, "generate", folder / "lm.npz", "--draft", tmp_path / "b.npz")


def test_prompts_come_through_a_pipe(capsys, folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("the fox"))
    code, out, _ = run(capsys, "generate", folder / "lm.npz", "--prompt", "-", "--length", 5)
    assert code == 0 and out.startswith("the fox") and len(out) == 13


@pytest.mark.slow
def test_translations_keep_the_order_of_the_lines(capsys, folder, monkeypatch):
    lines = [*(folder / "a.txt").read_text().splitlines()[:40], "", "ten"]
    code, alone, _ = run(capsys, "translate", folder / "pairs.npz", *lines)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    code, piped, err = run(capsys, "translate", folder / "pairs.npz")
    assert code == 0 and piped == alone and not err
    assert len(piped.splitlines()) == 42 and piped.splitlines()[40] == ""
    for n in (0, 7, 41):
        assert run(capsys, "translate", folder / "pairs.npz", lines[n])[1].rstrip("\n") == piped.splitlines()[n]
    code, out, _ = run(capsys, "translate", folder / "pairs.npz", "one", "two", "--n-best", 3)
    rows = [line.split("\t") for line in out.splitlines()]
    scores = [float(score) for score, _ in rows]
    assert len(rows) == 6 and scores[:3] == sorted(scores[:3], reverse=True)


def test_evaluation_of_a_language_model(capsys, folder):
    code, out, err = run(capsys, "evaluate", folder / "lm.npz")
    loss = float(re.search(r"loss (\d\.\d+) nats", out)[1])
    perplexity = float(re.search(r"perplexity (\S+)", out)[1])
    assert code == 0 and "179 tokens in windows of 8" in out        # every token of the held-out tenth but the first
    assert perplexity == pytest.approx(np.exp(loss), rel=1e-3)
    loaded = load_run(folder / "lm.npz")
    ids, total = loaded.tokenizers[0].encode(TEXT)[1620:], 0.0
    for start in range(0, 179, 8):                          # by hand: each window by itself
        window = ids[start:start + 9]
        z = loaded.model(window[:-1]).astype(np.float64)
        total -= (z - np.log(np.exp(z).sum(-1, keepdims=True)))[np.arange(len(window) - 1), window[1:]].sum()
    assert loss == pytest.approx(total / 179, abs=1e-4)
    code, out, _ = run(capsys, "evaluate", folder / "lm.npz", "--text", folder / "text.txt")
    assert code == 0 and "1,799 tokens" in out


@pytest.mark.slow
def test_evaluation_of_pairs(capsys, folder):
    code, out, _ = run(capsys, "evaluate", folder / "pairs.npz", "--limit", 5)
    assert code == 0 and "5 pairs" in out and re.search(r"exact match \d+\.\d\d%, BLEU \d+\.\d\d", out)
    code, out, _ = run(capsys, "evaluate", folder / "pairs.npz", "--source", folder / "a.txt", "--target",
                       folder / "b.txt", "--beam", 2)
    assert code == 0 and "120 pairs" in out and "beam 2" in out


def test_exact_match_and_bleu_of_known_translations(capsys, folder, monkeypatch):
    """The measures are those of the pairs: a model that is right about all but one of them."""
    pairs = dict(zip((folder / "a.txt").read_text().splitlines(), (folder / "b.txt").read_text().splitlines()))
    wrong = next(iter(pairs))
    decode = load_run(folder / "pairs.npz").tokenizers[0].decode
    monkeypatch.setattr("numpy_transformer.cli.evaluate.translate", lambda run, rows, *_: [
        [("WRONG" if text == wrong else pairs[text], 0.0)] for text in (decode(row[1:-1] - 3) for row in rows)])
    _, out, _ = run(capsys, "evaluate", folder / "pairs.npz", "--source", folder / "a.txt", "--target",
                    folder / "b.txt")
    share = sum(source != wrong for source in (folder / "a.txt").read_text().splitlines()) / 120
    assert f"exact match {share:.2%}" in out and 95 < float(re.search(r"BLEU (\S+),", out)[1]) < 100


def test_info_shows_settings_progress_and_parameters(capsys, folder):
    code, out, _ = run(capsys, "info", folder / "pairs.average.npz")
    assert code == 0 and "the mean of 2 saves, pairs.step-0000004.npz to pairs.step-0000006.npz" in out
    code, out, _ = run(capsys, "info", folder / "lm.npz", "--parameters")
    assert "step 6 of 6, configuration small" in out and "char, 29" in out
    assert re.search(r"d_model +8$", out, re.M) and "decoder.blocks.0.attention.query.weight" in out
    model = load_run(folder / "lm.npz").model
    assert f"{model.num_parameters():,}" in out.splitlines()[-1]


def test_the_average_is_the_mean_of_the_saves_that_stayed(folder):
    average = load_run(folder / "pairs.average.npz").model.state_dict()
    saves = [load_run(folder / f"pairs.step-000000{n}.npz").model.state_dict() for n in (4, 6)]
    for name, array in average.items():
        mean = (saves[0][name].astype(np.float64) + saves[1][name]) / 2
        np.testing.assert_allclose(array, mean, rtol=1e-6, atol=1e-9)
    assert not (folder / "pairs.step-0000002.npz").exists()


# resume

def test_a_run_goes_on_with_its_own_settings(capsys, folder, tmp_path):
    """In two parts, the second without naming anything again: the weights of one run in one part."""
    out, base = tmp_path / "run.npz", [*LM, "--text", folder / "text.txt", "--schedule", "constant", "--dropout", 0.1]
    run(capsys, *base, "--out", out, "--steps", 3)
    code, text, _ = run(capsys, "train", "lm", "--resume", "--out", out, "--steps", 6)
    assert code == 0 and "resuming at step 3" in text
    run(capsys, *base, "--out", tmp_path / "whole.npz")
    a, b = load_run(out).model, load_run(tmp_path / "whole.npz").model
    for p, q in zip(a.parameters(), b.parameters()):
        np.testing.assert_array_equal(p.data, q.data)
    code, text, _ = run(capsys, "train", "lm", "--resume", "--out", out)
    assert code == 0 and "resuming at step 6" in text       # nothing left to do
    np.testing.assert_array_equal(load_run(out).model.parameters()[0].data, a.parameters()[0].data)


def test_a_resume_without_a_run_begins_anew_and_says_so(capsys, folder, tmp_path):
    code, out, err = run(capsys, *LM, "--text", folder / "text.txt", "--out", tmp_path / "new.npz", "--resume")
    assert code == 0 and "there is no" in err and "starting a new run" in err and (tmp_path / "new.npz").exists()


@pytest.mark.parametrize("options, match", [
    (["--d-model", 16], "--d-model is 8 in the run that is resumed, not 16"),
    (["--context", 9], "--context is 8 in the run"),
    (["--seed", 7], "--seed is 1 in the run"), (["--config", "nanogpt-cpu"], "--config is small in the run"),
    (["--bias"], "--bias is False in the run")])
def test_a_run_does_not_go_on_with_other_settings(capsys, folder, options, match):
    before = (folder / "lm.npz").read_bytes()
    assert match in refused(capsys, "train", "lm", "--resume", "--out", folder / "lm.npz", *options)
    assert (folder / "lm.npz").read_bytes() == before


def test_a_run_does_not_go_on_with_another_text_or_kind(capsys, folder, tmp_path):
    text, out = tmp_path / "t.txt", tmp_path / "run.npz"
    text.write_text(TEXT)
    run(capsys, *LM, "--text", text, "--out", out)
    text.write_text(TEXT.replace("fox", "cat"))
    assert "the texts are not those" in refused(capsys, "train", "lm", "--resume", "--out", out, "--steps", 9)
    assert "holds a run of `train lm`" in refused(capsys, *PAIRS, "--task", "copy", "--resume", "--out", out)
    assert "the texts are not those" in refused(capsys, "evaluate", out)


def test_an_existing_run_is_not_replaced_without_overwrite(capsys, folder):
    before = (folder / "lm.npz").read_bytes()
    for text in ("text.txt", "no.txt"):
        assert "exists already" in refused(capsys, *LM, "--text", folder / text, "--out", folder / "lm.npz")
    assert "cannot read" in refused(capsys, *LM, "--text", folder / "no.txt", "--out", folder / "lm.npz", "--overwrite")
    assert (folder / "lm.npz").read_bytes() == before


def test_stories_are_drawn_from_the_seed_and_a_text_takes_their_place(capsys, folder, tmp_path):
    stories = ["train", "lm", "--config", "stories", *SMALL, "--context", 8, "--validate-every", 6]
    code, out, _ = run(capsys, *stories, "--stories", 20, "--out", tmp_path / "stories.npz")
    assert code == 0 and "of 20 generated stories, " in out
    assert run(capsys, *stories, "--stories", 20, "--steps", 8, "--out", tmp_path / "stories.npz", "--resume")[0] == 0
    code, out, _ = run(capsys, "generate", tmp_path / "stories.npz", "--prompt", "Once upon a time", "--length", 5)
    assert code == 0 and out.startswith("Once upon a time")
    assert "--stories" in refused(capsys, *stories, "--stories", 21, "--out", tmp_path / "stories.npz", "--resume")
    assert run(capsys, *LM, "--config", "stories", "--tokenizer", "char", "--text", folder / "text.txt",
               "--out", tmp_path / "text.npz")[0] == 0
    assert "--text is the text to train on" in refused(capsys, *LM, "--text", folder / "text.txt", "--stories", 20)


def test_ctrl_c_saves_and_exits_130(folder, tmp_path):
    out = tmp_path / "run.npz"
    process = subprocess.Popen(
        [sys.executable, "-m", "numpy_transformer", *map(str, LM), "--steps", "100000", "--save-every", "5", "--text",
         str(folder / "text.txt"), "--out", str(out)], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (out.exists() and read_checkpoint(out)[1]["step"]):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    step = read_checkpoint(out)[1]["step"]
    assert process.returncode == 130 and "Traceback" not in err
    assert f"stopped after step {step}, saved in '{out}'; --resume continues" in err


def test_texts_may_have_moved_but_not_changed(capsys, folder, tmp_path):
    out, moved = tmp_path / "run.npz", tmp_path / "moved.txt"
    run(capsys, *LM, "--text", folder / "text.txt", "--out", out, "--steps", 3)
    moved.write_text(TEXT)
    code, text, _ = run(capsys, "train", "lm", "--resume", "--out", out, "--steps", 6, "--text", moved)
    assert code == 0 and "resuming at step 3" in text


@pytest.mark.slow
def test_a_run_that_stopped_early_says_so_and_goes_on_with_more_patience(capsys, folder, tmp_path, monkeypatch):
    losses = iter([1.0, 2.0, 3.0, 4.0, 0.5])
    monkeypatch.setattr("numpy_transformer.tasks.task.evaluate", lambda *_: next(losses))
    out = tmp_path / "run.npz"
    code, text, _ = run(capsys, *LM, "--text", folder / "text.txt", "--out", out, "--patience", 2,
                        "--validate-every", 1)
    assert code == 0 and "stopped early: the loss did not improve in 2 validations" in text and "best validation loss 1.0000 at step 1" in text
    code, text, _ = run(capsys, "train", "lm", "--resume", "--out", out, "--patience", 4, "--steps", 5)
    assert code == 0 and "best validation loss 0.5000 at step 5" in text


def test_a_run_killed_before_its_first_step_has_its_settings(capsys, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(nt.Trainer, "step", lambda *_: (_ for _ in ()).throw(OSError("killed")))
    assert "killed" in refused(capsys, *LM, "--text", folder / "text.txt", "--out", tmp_path / "run.npz")
    monkeypatch.undo()
    code, text, _ = run(capsys, "train", "lm", "--resume", "--out", tmp_path / "run.npz")
    assert code == 0 and "resuming at step 0" in text
    a, b = load_run(folder / "lm.npz").model, load_run(tmp_path / "run.npz").model
    for p, q in zip(a.parameters(), b.parameters()):
        np.testing.assert_array_equal(p.data, q.data)


def test_only_runs_and_pictures_are_replaced(capsys, folder, tmp_path):
    base, text = [*LM, "--text", folder / "text.txt"], tmp_path / "precious.png"
    text.write_text(TEXT)
    assert "is not a checkpoint" in refused(capsys, *base, "--out", text, "--overwrite")
    assert "is not a picture" in refused(capsys, *base, "--out", tmp_path / "x.npz", "--curves", text)
    assert "must end in .png" in refused(capsys, *base, "--out", tmp_path / "x.npz", "--curves", tmp_path / "x.npz")
    (tmp_path / "x.average.npz").write_text("precious")
    assert "from another run" in refused(capsys, *base, "--out", tmp_path / "x.npz", "--average", 2)
    assert text.read_text() == TEXT and (tmp_path / "x.average.npz").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("options, name", [
    (["--schedule", "noam", "--lr", 1], "lr"), (["--factor", 2], "factor"), (["--vocab-size", 300], "vocab-size"),
    (["--schedule", "constant", "--min-lr", 0.1], "min-lr")])
def test_options_without_effect_are_refused(capsys, folder, tmp_path, options, name):
    line = refused(capsys, *LM, "--text", folder / "text.txt", *options, "--out", tmp_path / "x.npz")
    assert f"--{name} would have no effect" in line
    line = refused(capsys, "train", "seq2seq", "--task", "copy", "--tokenizer", "word", "--out", tmp_path / "x.npz")
    assert "--tokenizer would have no effect" in line


def test_a_short_run_warms_up_over_a_tenth_but_noam_keeps_its_peak():
    assert LanguageModelTask.default_settings("small", steps=50)["warmup"] == 5
    assert LanguageModelTask.default_settings("small", steps=50, warmup=60)["warmup"] == 60
    assert SequenceToSequenceTask.default_settings("2017", steps=50)["warmup"] == 1000


def test_the_validation_set_is_a_tenth_and_not_in_the_training_set():
    pairs = [(f"source {n % 150}", f"target {n}") for n in range(200)]          # some sources occur twice
    training, validation = hold_out_sources(pairs, seed=3)
    assert sorted(training + validation) == sorted(pairs) and len({source for source, _ in validation}) in range(10, 21)
    assert not {source for source, _ in training} & {source for source, _ in validation}
    assert hold_out_sources(pairs, seed=3) == (training, validation) != hold_out_sources(pairs, seed=4)
    with pytest.raises(ValueError, match="1 pair with 1 distinct source cannot be split"):
        hold_out_sources(pairs[:1], seed=3)


def test_the_options_of_the_beam_reach_it(capsys, folder, monkeypatch):
    asked = []
    monkeypatch.setattr("numpy_transformer.cli.generate.beam_search", lambda model, source, *options: asked.append(
        options) or [[([4], 0.0)]] * len(source))
    run(capsys, "translate", folder / "pairs.npz", "one", "--beam", 3, "--length-penalty", 1.5, "--n-best", 2)
    run(capsys, "evaluate", folder / "pairs.npz", "--limit", 2, "--beam", 2, "--length-penalty", 0.25)
    assert asked == [(1, 2, 100, 3, 1.5, 2), (1, 2, 100, 2, 0.25, 1)]


@pytest.mark.parametrize("options, check", [
    (["--clip", 0.001], lambda t: t.clip == 0.001), (["--clip", 0], lambda t: t.clip is None),
    (["--beta1", 0.5, "--beta2", 0.6], lambda t: t.optimizer.betas == (0.5, 0.6)),
    (["--eps", 1e-3], lambda t: t.optimizer.eps == 1e-3), (["--accumulate", 3], lambda t: t.accumulate == 3),
    (["--weight-decay", 0.3], lambda t: t.optimizer.weight_decay == 0.3
        and all(p.data.ndim > 1 for p in t.optimizer.decay) and len(t.optimizer.decay) < len(t.parameters)),
    (["--label-smoothing", 0.2], lambda t: t.criterion.label_smoothing == 0.2),
    (["--z-loss", 0.01, "--label-smoothing", 0.2],
     lambda t: (t.criterion.coefficient, t.criterion.criterion.label_smoothing) == (0.01, 0.2)),
    (["--schedule", "constant", "--lr", 0.03], lambda t: t.schedule.lr == 0.03 and t.schedule.warmup == 2),
    (["--schedule", "noam", "--factor", 3], lambda t: t.schedule.scale == pytest.approx(3 / 8 ** 0.5)),
    (["--schedule", "wsd", "--min-lr", 1e-7],
     lambda t: (t.schedule.min_lr, t.schedule.decay, t.schedule.steps) == (1e-7, 1, 6)),
    (["--optimizer", "muon", "--lr", 0.01], lambda t: [type(part) for part in t.optimizer.optimizers] == [nt.AdamW, nt.Muon]
        and t.optimizer.optimizers[1].lr == pytest.approx(4 * t.optimizer.lr) and t.schedule.lr == 0.01
        and len(t.optimizer.parameters) == len(t.parameters)),
    (["--min-lr", 1e-7], lambda t: (t.schedule.min_lr, t.schedule.steps) == (1e-7, 6))])
def test_rates_reach_the_trainer(capsys, folder, tmp_path, monkeypatch, options, check):
    trainers = []
    monkeypatch.setattr(nt.Trainer, "fit", lambda self, *arguments, **named: trainers.append((self, arguments, named)))
    run(capsys, *LM, "--text", folder / "text.txt", "--out", tmp_path / "run.npz", *options, "--validate-every", 4,
        "--save-every", 5, "--patience", 7)
    trainer, arguments, named = trainers[0]
    assert check(trainer) and arguments[1] == 6 and arguments[3] == 4
    assert named["patience"] == 7 and named["checkpoint"].every == 5


def test_padding_is_ignored_in_the_loss_of_pairs(capsys, tmp_path, monkeypatch):
    trainers = []
    monkeypatch.setattr("numpy_transformer.data.generated_pairs.TRAINING", 2_000)           # fewer pairs, to be quick
    monkeypatch.setattr(nt.Trainer, "fit", lambda self, *arguments, **named: trainers.append(self))
    run(capsys, *PAIRS[:-2], "--task", "copy", "--max-len", 16, "--out", tmp_path / "run.npz")
    criterion = trainers[0].criterion
    assert criterion.ignore_id == 0 and criterion.label_smoothing == 0.1
    task = SequenceToSequenceTask.__new__(SequenceToSequenceTask)
    task.tokenizers = [CharTokenizer("ab")] * 2
    assert task.make_criterion().ignore_id == 0 and task.make_criterion().label_smoothing == 0


def test_good_lines_before_a_bad_one_are_translated(capsys, folder, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("one\r\ntwo\nquite #\nthree\n"))
    code = main(["translate", str(folder / "pairs.npz")])
    output = capsys.readouterr()
    assert code == 2 and len(output.out.splitlines()) == 2 and "translate: line 3: the character" in output.err


@pytest.mark.slow
def test_a_stop_text_that_is_no_token_stops_nothing(capsys, folder, tmp_path):
    out = tmp_path / "run.npz"
    run(capsys, *LM, "--text", folder / "text.txt", "--tokenizer", "word", "--vocab-size", 258, "--out", out)
    plain = run(capsys, "generate", out, "--temperature", 5, "--prompt", "the")[1]
    assert run(capsys, "generate", out, "--temperature", 5, "--prompt", "the", "--stop", "xyz")[1] == plain
    assert run(capsys, "generate", folder / "lm.npz", "--stop", "한")[0] == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", [
    "info {lm} >/dev/full", pytest.param("generate {lm} --length 5 >/dev/full", marks=pytest.mark.slow),
    pytest.param("info <&- >/dev/full", marks=pytest.mark.slow)])
def test_output_that_cannot_be_written_is_one_line(folder, command):
    command = command.format(lm=folder / "lm.npz")
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m numpy_transformer {command}"], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.slow
def test_closed_streams_are_no_tracebacks(folder, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    python = f"{sys.executable} -m numpy_transformer"
    for command in (f"translate {folder / 'pairs.npz'} <&-", f"generate {folder / 'lm.npz'} --prompt - <&-"):
        done = subprocess.run(["bash", "-c", f"{python} {command}"], capture_output=True, text=True, env=environment)
        assert "Traceback" not in done.stderr and done.returncode in (0, 2)
    command = " ".join(map(str, LM)) + f" --text {folder / 'text.txt'} --out {tmp_path / 'run.npz'} 2>&- | head -1"
    subprocess.run(["bash", "-c", f"{python} {command}"], capture_output=True, env=environment)
    assert read_checkpoint(tmp_path / "run.npz")[1]["step"] == 6        # nothing read the output, and the training finished


# bad input

@pytest.mark.parametrize("arguments, match", [
    (["generate", "{lm}", "--prompt", "zebra!"], "the character '!' is not among the 29"),
    (["generate", "{lm}", "--temperature", -1], "'-1' is not a number of at least 0"),
    (["generate", "{lm}", "--top-p", 0], r"top_p = 0.0 must lie in \(0, 1\]"),
    (["generate", "{lm}", "--top-p", 1.2], r"top_p = 1.2 must lie in \(0, 1\]"),
    (["generate", "{lm}", "--top-k", 0], "'0' is not a whole number of at least 1"),
    (["generate", "{lm}", "--prompt", ""], "the prompt is empty"),
    (["generate", "{pairs}"], "holds an encoder-decoder: `translate` uses it; name a run of `train lm`"),
    (["generate", "{text}"], "is not a checkpoint, or is damaged"), (["generate", "no.npz"], "cannot read 'no.npz'"),
    (["translate", "{lm}", "one"], "holds a language model"),
    (["translate", "{pairs}", "one", "--beam", 0], "'0' is not a whole number of at least 1"),
    (["translate", "{pairs}", "one", "--n-best", 5], "n_best = 5 is above beam = 4"),
    (["translate", "{pairs}", "one" * 40],
     "TEXT 1: .* has 122 tokens, including begin and end, but the model reads at most 100"),
    (["translate", "{pairs}", "日本"], "the character '日'"),
    (["evaluate", "{lm}", "--source", "x"], "evaluate it with --text"),
    (["evaluate", "{pairs}", "--text", "x"], "evaluate it with --source"),
    (["evaluate", "{pairs}", "--source", "{text}"], "both, or without files"),
    (["info", "{text}"], "is not a checkpoint"),
    (["train", "lm", "--out", "no-folder/run.npz"], "cannot write .*no-folder"),
    (["train", "lm", "--out", "{folder}"], "it is a folder, but a result replaces a regular file"),
    (["train", "lm", "--curves", "no-folder/c.png", "--out", "{new}"], "cannot write .*c.png"),
    (["train", "lm", "--resume", "--overwrite", "--out", "{new}"], "give only one of them"),
    (["train", "lm", "--d-model", 10, "--num-heads", 4, "--out", "{new}"], "d_model = 10 is not divisible"),
    (["train", "lm", "--lr", "nan", "--out", "{new}"], "'nan' is not a number"),
    (["train", "lm", "--dropout", 1, "--out", "{new}"], "'1' is not a number of at least 0 and below 1"),
    (["train", "lm", "--tokenizer", "bpe", "--vocab-size", 10, "--out", "{new}"], "at least 258"),
    (["train", "lm", "--config", "huge"], "invalid choice"),
    (["train", "seq2seq", "--out", "{new}"], "name what to train on"),
    pytest.param(["train", "seq2seq", "--task", "dates", "--max-len", 27, "--out", "{new}"],
                 "--max-len 27 is too short", marks=pytest.mark.slow),
    (["train", "lm", "--warmup", 9, "--steps", 9, "--out", "{new}"], "--warmup 9 leaves none of the --steps 9 to lower the rate; give at most 8"),
    (["train", "lm", "--text", "", "--out", "{new}"], "cannot read ''"),
    (["evaluate", "{lm}", "--limit", 5], "evaluate it with"),
    (["train", "seq2seq", "--task", "copy", "--source", "{text}", "--out", "{new}"], "name what to train on"),
    (["train", "seq2seq", "--source", "{a}", "--target", "{short}", "--out", "{new}"], "has 120 lines but .* has 119"),
    (["train", "seq2seq", "--source", "{a}", "--target", "{a}", "--max-len", 5, "--tokenizer", "char", "--out",
      "{new}"], "no pair has at most 5 tokens on each side, .* of 108 has 9")])
def test_bad_input_gets_one_line_and_leaves_nothing(capsys, folder, tmp_path, arguments, match):
    (folder / "short.txt").write_text("x\n" * 119)
    places = {"lm": folder / "lm.npz", "pairs": folder / "pairs.npz", "text": folder / "text.txt", "folder": folder,
              "a": folder / "a.txt", "short": folder / "short.txt", "new": tmp_path / "new.npz"}
    line = refused(capsys, *[str(a).format(**places) for a in arguments])
    assert re.search(match, line), line
    assert not list(tmp_path.iterdir())


def test_lines_that_cannot_be_used_are_counted_and_reported(capsys, folder, tmp_path):
    lines = (folder / "a.txt").read_text().splitlines()
    lines[3] = lines[9] = ""
    lines[5] = "one " * 60
    (tmp_path / "a.txt").write_text("\n".join(lines))
    options = [*PAIRS, "--source", tmp_path / "a.txt", "--target", folder / "b.txt", "--max-len", 60]
    code, out, _ = run(capsys, *options, "--out", tmp_path / "drop.npz")
    assert code == 0 and "dropped 2 of 120 pairs: one side is empty (first: line 4)" in out
    assert re.search(r"dropped 1 of \d+ pairs: one side has more than 60 tokens", out)
    code, out, _ = run(capsys, *options, "--out", tmp_path / "cut.npz", "--too-long", "cut")
    assert code == 0 and re.search(r"cut 1 of \d+ pairs", out)


def test_a_damaged_run_is_refused_by_every_command(capsys, folder, tmp_path):
    data = (folder / "lm.npz").read_bytes()
    path = tmp_path / "damaged.npz"
    with zipfile.ZipFile(folder / "lm.npz") as archive:
        place = archive.getinfo("model/decoder.blocks.0.feed_forward.gate.weight.npy").header_offset + 300      # in its numbers
    inverted = bytes(255 - byte for byte in data[place:place + 9])
    for damaged in (data[:-100], data[:place] + inverted + data[place + 9:], b""):
        path.write_bytes(damaged)
        for command in (["generate"], ["evaluate"], ["info"], ["train", "lm", "--resume", "--out"]):
            assert "damaged" in refused(capsys, *command, path)
        assert path.read_bytes() == damaged
    nt.Checkpoint(tmp_path / "bare.npz")                    # a checkpoint that no command has written
    model = nt.CausalLanguageModel(7, 8, 2, 1, max_len=8, rng=0)
    nt.Trainer(model, nt.CrossEntropyLoss(), nt.Adam(model.parameters())).fit(
        lambda n: (np.ones((1, 3), int), np.ones((1, 3), int)), 1, checkpoint=tmp_path / "bare.npz")
    capsys.readouterr()
    assert "that neither `train` nor `import` wrote" in refused(capsys, "info", tmp_path / "bare.npz")


@pytest.mark.slow
def test_output_to_a_closed_pipe_is_no_error(folder):
    code = f"{sys.executable} -m numpy_transformer generate {folder / 'lm.npz'} --length 200 --samples 50 | head -c 10"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
