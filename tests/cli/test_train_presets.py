"""train lm --preset: the sizes and the initial weights of an architecture that the options of the run describe."""

import re

import numpy as np
import pytest
from helpers.commands import refused, run

import numpy_transformer as nt
from numpy_transformer.data import CharTokenizer
from numpy_transformer.tasks.language_model import LanguageModelTask

TEXT = "the film was good. the film was bad.\n" * 40
SIZES = {"d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 12, "context": 40}


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


def model_of(text, preset, **options):
    settings = LanguageModelTask.default_settings("small", text=str(text), preset=preset, **SIZES | options)
    return LanguageModelTask(settings).make_model()


def parts(model, kind):
    return [part for _, part in model.named_modules() if isinstance(part, kind)]


@pytest.mark.parametrize("preset", ["mistral", "gemma2", "gemma3", "gpt-oss"])
def test_the_window_of_a_run_is_given_or_a_quarter_of_the_context(text, preset):
    assert {part.window for part in parts(model_of(text, preset), nt.SlidingWindow)} == {10}
    assert {part.window for part in parts(model_of(text, preset, window=7), nt.SlidingWindow)} == {7}
    assert {part.window for part in parts(nt.preset(preset), nt.SlidingWindow)} == {4}


@pytest.mark.parametrize("preset", ["mixtral", "qwen3-moe", "gpt-oss", "deepseek-v3"])
def test_the_experts_of_a_run_are_given(text, preset):
    for options, wanted in (({}, (4, 2)), ({"num_experts": 5, "experts_per_token": 3}, (5, 3))):
        mixtures = parts(model_of(text, preset, **options), nt.MixtureOfExperts)
        assert {(len(mixture.experts), mixture.router.top_k) for mixture in mixtures} == {wanted}


@pytest.mark.parametrize("preset", ["qwen3", "deepseek-v3", "gpt2"])
def test_the_initial_weights_of_a_preset_are_those_that_init_names(text, preset):
    """gpt2 draws N(0, 0.02²), bert cuts that off at two standard deviations, and xavier's bound is that of each matrix."""
    weights = {init: model_of(text, preset, init=init).state_dict() for init in ("gpt2", "bert", "xavier")}
    names = [name for name, array in weights["gpt2"].items() if array.ndim == 2 and array.any()]
    assert not any(np.array_equal(weights[one][name], weights[other][name]) for name in names
                   for one, other in (("gpt2", "bert"), ("gpt2", "xavier"), ("bert", "xavier")))
    linears = [name for name in names if "embedding" not in name and "output" not in name.split(".")[0] and "positions" not in name]
    together = np.concatenate([weights["bert"][name].ravel() for name in linears])
    assert abs(together).max() <= 0.04 + 1e-7 and 0.015 < together.std() < 0.02
    for name in linears:
        bound = (6 / sum(weights["xavier"][name].shape)) ** 0.5
        assert 0.5 * bound < abs(weights["xavier"][name]).max() <= bound * (1 + 1e-6), name


@pytest.mark.parametrize("options, message", [
    (["--window", 4], "--window would have no effect: it is for a --preset that has it; give --preset mistral or gemma2"),
    (["--preset", "qwen3", "--window", 4], "--window would have no effect: qwen3 has none; leave it out, or choose --preset mistral"),
    (["--preset", "gemma3", "--num-experts", 4], "--num-experts would have no effect: gemma3 has none; .* --preset mixtral"),
    (["--experts-per-token", 1], "--experts-per-token would have no effect: .* give --preset mixtral or qwen3-moe")])
def test_sizes_that_a_run_does_not_have_are_refused(capsys, text, tmp_path, options, message):
    assert re.search(message, refused(capsys, "train", "lm", "--text", text, "--out", tmp_path / "run.npz", *options))


def test_a_run_of_a_preset_is_resumed_and_read_with_its_window(capsys, text, tmp_path):
    few = ["--text", text, "--out", tmp_path / "run.npz", "--steps", 1, "--workers", 1]
    sizes = ["--preset", "mistral", "--window", 6, "--init", "bert", "--d-model", 8, "--num-layers", 1, "--d-ff", 8, "--context", 16]
    assert run(capsys, "train", "lm", *few, *sizes)[0] == 0
    code, out, err = run(capsys, "train", "lm", "--out", tmp_path / "run.npz", "--resume", "--steps", 2)
    assert code == 0 and "resuming at step 1" in out, err
    loaded = nt.load_run(tmp_path / "run.npz")
    assert [part.window for part in parts(loaded.model, nt.SlidingWindow)] == [6] and loaded.settings["init"] == "bert"


def test_muon_is_refused_where_lora_freezes_its_matrices(capsys, text, tmp_path):
    nt.save_run(tmp_path / "base.npz", *model_and_tokenizer(text))
    base = ["--text", text, "--pretrained", tmp_path / "base.npz", "--lora", 2, "--steps", 1, "--workers", 1, "--context", 8]
    line = refused(capsys, "train", "lm", *base, "--optimizer", "muon", "--out", tmp_path / "run.npz")
    assert "--optimizer would have no effect: with --lora all matrices that muon could train are frozen" in line
    assert run(capsys, "train", "lm", *base, "--optimizer", "adamw", "--out", tmp_path / "run.npz")[0] == 0


def model_and_tokenizer(text):
    tokenizer = CharTokenizer(text.read_text())
    return nt.preset("qwen3", vocab_size=tokenizer.vocab_size, max_len=16, rng=0), tokenizer


def test_the_help_of_export_names_everything_that_it_takes(capsys):
    with pytest.raises(SystemExit):
        run(capsys, "export", "--help")
    said = " ".join(capsys.readouterr().out.split())
    assert "trained with --preset, or made by nt.preset and saved by nt.save_run" in said
    assert "by `train lm --preset`, or by nt.save_run" in said
