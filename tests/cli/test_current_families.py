"""Folders of current families go through the commands: import, info, its check, generate or translate, train, export."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.commands import refused, run
from helpers.published import CONFIGS, TEXT, write_published
from helpers.small_checkpoints import SMALL

import numpy_transformer as nt
from numpy_transformer.data import Pairs
from numpy_transformer.pretrained.registry import FAMILIES
from numpy_transformer.pretrained.safetensors import TensorFile
from numpy_transformer.tasks.runs import load_run
from numpy_transformer.tasks.text_to_text import TextToTextTask

pytest.importorskip("tokenizers")
OLDER = ("gpt2", "llama", "t5")
NAMES = [name for name in CONFIGS if name not in OLDER and not name.startswith(("bert", "roberta"))]
KINDS = {"modernbert": "mlm", "bart": "text2text", "marian": "text2text"}      # the others are decoders
FEW = ["--steps", 3, "--batch-size", 4, "--warmup", 1, "--validate-every", 2, "--lr", 0.01, "--workers", 1]


def succeed(capsys, *arguments):
    """What a command prints."""
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    return out


@pytest.fixture
def data(tmp_path):
    """A function that returns the options of `train` for the data of a kind."""
    (tmp_path / "story.txt").write_text(TEXT * 20)
    (tmp_path / "tasks.tsv").write_text("source\ttarget\n" + "".join(
        f"the end: {word}\t{word}\n" for word in ("cat", "dog", "mat", "house", "end", "red", "old", "sat")))
    return {"lm": ["--text", tmp_path / "story.txt", "--context", 16], "mlm": ["--data", tmp_path / "story.txt"],
            "text2text": ["--data", tmp_path / "tasks.tsv"]}


def test_every_family_of_texts_has_a_case_or_a_relative_that_has_one():
    relatives = {"llama2.c", "mistral", "qwen2", "xlm-roberta", "camembert", "distilbert", "mt5"}
    assert {config["model_type"] for config in CONFIGS.values()} == FAMILIES.keys() - relatives - {"vit"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in ("gemma3", "deepseek_v3") else pytest.mark.slow)
                                  for name in NAMES])
def test_a_folder_goes_through_the_commands(capsys, name, data, tmp_path):
    kind = KINDS.get(name, "lm")
    write_published(tmp_path / "folder", name, seed=2)
    base, tuned, updated = (tmp_path / f"{which}.npz" for which in ("base", "tuned", "updated"))
    assert f"family {CONFIGS[name]['model_type']}" in succeed(capsys, "info", tmp_path / "folder")
    succeed(capsys, "import", tmp_path / "folder", "--out", base, "--dtype", "float64")
    assert CONFIGS[name]["architectures"][0] in succeed(capsys, "info", base)
    assert "loss" in succeed(capsys, "info", base, "--check", TEXT * 3)
    if kind == "lm":
        succeed(capsys, "generate", base, "--prompt", "the cat", "--length", 6, "--temperature", 0)
        loaded = load_run(base).model
        ids = np.array([5, 9, 3, 12, 7, 30, 11, 8, 21, 6, 14, 4])
        cache = nt.KeyValueCache()
        parts = [loaded(part, cache=cache) for part in np.split(ids, [5, 6, 7, 11])]
        np.testing.assert_allclose(np.concatenate(parts), loaded(ids), rtol=0, atol=1e-11)
    if kind == "text2text":
        succeed(capsys, "translate", base, "the cat", "a mat on the mat")
    succeed(capsys, "train", kind, *data[kind], "--pretrained", base, "--out", tuned, *FEW)
    succeed(capsys, "train", kind, *data[kind], "--pretrained", base, "--lora", 2, "--out", updated, *FEW)
    before = TensorFile(tmp_path / "folder" / "model.safetensors")
    for run_path in (tuned, updated):
        out = tmp_path / run_path.stem
        succeed(capsys, "export", run_path, out)
        after = TensorFile(out / "model.safetensors")
        assert {part: array.shape for part, array in after.items()} == {part: array.shape for part, array in before.items()}
        changed = [part for part in after if not np.array_equal(before[part].astype(after[part].dtype), after[part])]
        assert len(changed) > 4 and "model.layers.1.mlp.gate.e_score_correction_bias" not in changed


def test_sources_of_different_lengths_are_padded_with_the_id_of_the_family(capsys, tmp_path):
    """The padding id of BART is 1, and 0 begins each of its sources."""
    write_published(tmp_path / "folder", "bart", seed=7)
    succeed(capsys, "import", tmp_path / "folder", "--out", tmp_path / "base.npz")
    sources = ["the cat", "a dog ran to an old red house while we saw it"]
    together = succeed(capsys, "translate", tmp_path / "base.npz", *sources)
    assert together == "".join(succeed(capsys, "translate", tmp_path / "base.npz", source) for source in sources)


@pytest.mark.parametrize("command", ["info", "import"])
def test_a_model_of_images_is_for_python(capsys, command, tmp_path):
    more = ["--out", tmp_path / "run.npz"] if command == "import" else []
    assert "holds a model of images" in refused(capsys, command, SMALL / "vit", *more)


def test_info_tells_experts_and_windows(capsys):
    printed = succeed(capsys, "info", SMALL / "gpt_oss")
    assert "sliding windows of 3 tokens in 1 block, mixtures of 4 experts, 2 for each token" in printed
    assert "mixtures of 6 experts, 3 for each token" in succeed(capsys, "info", SMALL / "deepseek_v3")


def test_batches_pad_with_the_id_of_the_family(capsys, data, tmp_path):
    write_published(tmp_path / "folder", "bart", seed=3)
    succeed(capsys, "import", tmp_path / "folder", "--out", tmp_path / "base.npz")
    tokenizers = load_run(tmp_path / "base.npz").tokenizers
    assert TextToTextTask.make_criterion(SimpleNamespace(tokenizers=tokenizers)).ignore_id == 1
    pairs = [("the cat", "a dog"), ("a dog ran to the mat", "the end")]
    (source, target_in), target_out = Pairs(pairs, *tokenizers, 2, 0)(0)
    assert (source[:, 0] == 0).all() and (source[:, 1:] != 0).all() and 1 in source
    assert (target_in[:, 0] == 2).all() and 0 not in target_out
