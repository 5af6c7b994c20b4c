"""train --pretrained: which weights and settings a masked language model hands on."""

import shutil

import numpy as np
import pytest
from helpers.commands import refused, run
from helpers.encoder_runs import BASE, FILES, assert_same, state, trained

import numpy_transformer as nt
from numpy_transformer.tasks.runs import load_run


@pytest.fixture
def untrained(monkeypatch):
    """Trainings end before their first step."""
    monkeypatch.setattr(nt.Trainer, "fit", lambda *arguments, **named: None)


@pytest.mark.parametrize("kind, new", [
    ("classifier", ["hidden.weight", "hidden.bias", "output.weight", "output.bias"]),
    ("tagger", ["output.weight", "output.bias"])])
def test_pretrained_weights_are_carried_over_by_name(capsys, runs, tmp_path, untrained, kind, new):
    text = trained(capsys, kind, tmp_path / "run.npz", "--data", runs / FILES[kind], "--pretrained",
                   runs / "mlm.npz")
    before, after = state(runs / "mlm.npz"), state(tmp_path / "run.npz")
    left_out = ["transform.weight", "transform.bias", "norm.gamma", "norm.beta", "bias"]
    carried = sorted(set(before) - set(left_out))
    assert sorted(after) == sorted([*carried, *new]) and "segments.weight" in carried
    assert_same({name: before[name] for name in carried}, {name: after[name] for name in carried})
    assert f"{len(carried)} arrays copied from '{runs / 'mlm.npz'}'" in text
    assert f"\nnewly initialized: {', '.join(new)}\nnot used: {', '.join(left_out)}\n" in text
    mine, theirs = load_run(tmp_path / "run.npz"), load_run(runs / "mlm.npz")
    assert mine.tokenizers[0].to_json() == theirs.tokenizers[0].to_json()
    for name in ("tokenizer", "vocab_size", "lower", "d_model", "num_heads", "num_layers", "d_ff", "norm", "activation",
                 "positions"):
        assert mine.settings[name] == theirs.settings[name], name
    assert mine.settings["max_len"] == 64


def test_a_pretrained_run_decides_its_sizes(capsys, runs, tmp_path, untrained):
    base = ["train", "classifier", "--data", runs / "reviews.csv", "--pretrained", runs / "mlm.npz", "--out",
            tmp_path / "run.npz"]
    for option, value, theirs in (("--d-model", 16, 8), ("--num-heads", 1, 2), ("--vocab-size", 500, 2000),
                                  ("--positions", "learned", "rotary"), ("--tokenizer", "bpe", "word"),
                                  ("--norm", "post", "pre"), ("--d-ff", 9, 8)):
        line = refused(capsys, *base, option, value)
        assert f"{option} is {theirs} in the pretrained run" in line and f"not {value}; leave it out" in line
    assert "--lower is True in the pretrained run" in refused(capsys, *base, "--no-lower")
    assert "which --reading keras leaves out; use --reading bert" in refused(capsys, *base, "--reading", "keras")
    assert not list(tmp_path.iterdir())
    assert run(capsys, *base, "--d-model", 8, "--num-heads", 2, "--max-len", 9)[0] == 0     # equal, or free
    assert load_run(tmp_path / "run.npz").settings["max_len"] == 9


def test_a_table_of_positions_decides_the_longest_text(capsys, runs, tmp_path, untrained):
    trained(capsys, "mlm", tmp_path / "mlm.npz", *BASE["mlm"], "--positions", "learned", "--data", runs / "text.txt")
    base = ["--data", runs / "reviews.csv", "--pretrained", tmp_path / "mlm.npz"]
    text = trained(capsys, "classifier", tmp_path / "run.npz", *base)
    assert load_run(tmp_path / "run.npz").settings["max_len"] == 12 and "positions.weight" not in text
    assert "reads at most 12 tokens; give at most that" in refused(
        capsys, "train", "classifier", *base, "--max-len", 13, "--out", tmp_path / "x.npz")


def test_only_some_kinds_of_run_can_initialize_another(capsys, runs, tmp_path):
    for name, match in (("text2text.npz", "holds an encoder-decoder"), ("reviews.csv", "is not a checkpoint"),
                        ("none.npz", "cannot read")):
        assert match in refused(capsys, "train", "tagger", "--data", runs / "names.conll", "--pretrained",
                                runs / name, "--out", tmp_path / "x.npz")
    assert "`classify` uses it; name a run of `train mlm`" in refused(
        capsys, "train", "mlm", "--data", runs / "text.txt", "--pretrained", runs / "classifier.npz", "--out",
        tmp_path / "x.npz")
    assert not list(tmp_path.iterdir())


def test_a_pretrained_run_is_not_replaced_by_the_run_it_initializes(capsys, runs, tmp_path):
    path = tmp_path / "mlm.npz"
    shutil.copy(runs / "mlm.npz", path)
    before = path.read_bytes()
    refused(capsys, "train", "classifier", "--data", runs / "reviews.csv", "--pretrained", path, "--out", path,
            "--overwrite", "--steps", 2, "--warmup", 0)
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_pretrained_run_goes_on_without_it(capsys, runs, tmp_path):
    shutil.copy(runs / "mlm.npz", tmp_path / "mlm.npz")
    base = ["--data", runs / "reviews.csv", "--pretrained", tmp_path / "mlm.npz", "--warmup", 0, "--schedule",
            "constant", "--batch-size", 8, "--dropout", 0.1]
    trained(capsys, "classifier", tmp_path / "whole.npz", *base, "--steps", 4)
    trained(capsys, "classifier", tmp_path / "run.npz", *base, "--steps", 2)
    (tmp_path / "mlm.npz").unlink()
    trained(capsys, "classifier", tmp_path / "run.npz", "--resume", "--steps", 4)
    assert_same(state(tmp_path / "run.npz"), state(tmp_path / "whole.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("options, frozen", [
    (["--lora", 2], ["embedding", "segments", "encoder.blocks.0.attention.query.weight"]),
    (["--freeze", "embedding", "blocks.0"], ["embedding", "encoder.blocks.0"])])
def test_a_run_of_our_own_is_adapted_in_parts(capsys, runs, tmp_path, options, frozen):
    trained(capsys, "tagger", tmp_path / "run.npz", "--data", runs / "names.conll", "--pretrained", runs / "mlm.npz",
            *options, "--steps", 3, "--warmup", 1, "--batch-size", 8)
    before, after = state(runs / "mlm.npz"), state(tmp_path / "run.npz")
    same = {name for name in after if name in before and np.array_equal(before[name], after[name])}
    assert {name for name in before if name.startswith(tuple(frozen))} <= same and "output.weight" not in same
    assert load_run(tmp_path / "run.npz").meta["base"]["file"] == str(runs / "mlm.npz")
    assert run(capsys, "tag", tmp_path / "run.npz", "Ann went to Rome .")[0] == 0


def test_labels_decide_whether_the_output_layer_is_taken_over(capsys, runs, tmp_path, untrained):
    text = trained(capsys, "classifier", tmp_path / "same.npz", "--data", runs / "reviews.csv", "--pretrained",
                   runs / "classifier.npz", "--hidden", 8)
    assert "newly initialized: none\nnot used: none" in text
    assert_same(state(tmp_path / "same.npz"), state(runs / "classifier.npz"))
    text = trained(capsys, "classifier", tmp_path / "other.npz", "--data", runs / "films.neg", runs / "films.so",
                   "--pretrained", runs / "classifier.npz", "--hidden", 8)
    assert "newly initialized: output.weight, output.bias\n" in text
