"""save_pretrained: what it writes, what it leaves alone, and that nothing is left half-written."""

import json

import numpy as np
import pytest
from helpers.small_checkpoints import SMALL

import numpy_transformer as nt
from numpy_transformer.pretrained import build_model, load_pretrained, save, save_pretrained
from numpy_transformer.pretrained.safetensors import TensorFile, write_safetensors

FILES = {"config.json", "model.safetensors", "numpy_transformer.json"}


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_model_of_our_own_has_no_names_for_transformers(tmp_path):
    with pytest.raises(ValueError, match="did not come from a checkpoint"):
        save_pretrained(nt.CausalLanguageModel(5, 4, 2, 1, rng=0), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_float64_and_facts_that_changed(tmp_path):
    model = load_pretrained(SMALL / "llama", np.float64)
    save_pretrained(model, tmp_path / "a" / "b")                        # makes folders
    assert names(tmp_path / "a" / "b") == FILES
    config = json.loads((tmp_path / "a" / "b" / "config.json").read_text())
    original = json.loads((SMALL / "llama" / "config.json").read_text())
    assert config == original | {"dtype": "float64"}
    assert TensorFile(tmp_path / "a" / "b" / "model.safetensors").entries["model.norm.weight"].dtype == "F64"


def test_files_of_others_stay(tmp_path):
    (tmp_path / "notes.md").write_text("mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "config.json").write_text("mine, too")
    model = load_pretrained(SMALL / "gpt2")
    model.origin.files = {"tokenizer.json": "{}", "../stolen.txt": "x", "1_Pooling/config.json": "{}"}
    save_pretrained(model, tmp_path)
    assert names(tmp_path) == FILES | {"notes.md", "data/config.json", "tokenizer.json"}
    assert not (tmp_path.parent / "stolen.txt").exists()
    model.origin.files = {}
    model.embedding.weight.data += 1
    save_pretrained(model, tmp_path)                                    # its own files may be replaced, or go
    assert names(tmp_path) == FILES | {"notes.md", "data/config.json"}
    assert (tmp_path / "notes.md").read_text() == "mine"
    np.testing.assert_array_equal(load_pretrained(tmp_path).embedding.weight.data, model.embedding.weight.data)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "model-00001-of-00002.safetensors",
                                  "pytorch_model.bin", "tokenizer.json"])
def test_files_of_another_model_are_not_mixed_up(name, tmp_path):
    (tmp_path / name).write_text("another")
    model = load_pretrained(SMALL / "gpt2")
    model.origin.files = {"tokenizer.json": "{}"}
    with pytest.raises(ValueError, match=f"holds a file {name} of another model.*; name another folder"):
        save_pretrained(model, tmp_path)
    assert names(tmp_path) == {name} and (tmp_path / name).read_text() == "another"


def test_a_list_of_files_from_elsewhere_deletes_nothing(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "precious.txt").write_text("x")
    (tmp_path / "out" / "mine.txt").write_text("x")
    (tmp_path / "out" / "numpy_transformer.json").write_text(json.dumps(
        {"files": ["../precious.txt", "mine.txt", str(tmp_path / "precious.txt"), "numpy_transformer.json", 3]}))
    save_pretrained(load_pretrained(SMALL / "gpt2"), tmp_path / "out")
    assert names(tmp_path) == {"precious.txt", "out/mine.txt"} | {f"out/{name}" for name in FILES}


@pytest.mark.parametrize("existing", [True, False])
def test_an_interruption_leaves_nothing_half(existing, tmp_path, monkeypatch):
    model = load_pretrained(SMALL / "gpt2")
    folder = tmp_path / "out"
    if existing:
        save_pretrained(model, folder)
    before = {name: (folder / name).read_bytes() for name in names(folder)}

    def full(path, arrays):
        write_safetensors(path, arrays)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(save, "write_safetensors", full)
    model.embedding.weight.data += 1
    with pytest.raises(OSError, match="cannot write .*No space left on device; free some space"):
        save_pretrained(model, folder)
    assert {name: (folder / name).read_bytes() for name in names(folder)} == before
    assert folder.exists() == existing


def classifier(origin, **options):
    head = {"num_classes": 3, "hidden": 8, "pool": "first", "head_activation": "tanh"}
    model = build_model("bert", nt.SequenceClassifier, origin.options | head | options, 0)
    model.origin = origin
    return model


def test_a_new_head(tmp_path):
    base = load_pretrained(SMALL / "bert")
    base.origin.options = {key: value for key, value in base.origin.options.items() if key != "head_activation"}
    base.origin.files = {"tokenizer.json": "{}", "modules.json": "[]", "1_Pooling/config.json": "{}"}
    base.origin.unused = {"bert.pooler.dense.weight": np.ones((8, 8), np.float32)}
    base.origin.config["num_labels"] = 5
    model = classifier(base.origin)
    save_pretrained(model, tmp_path / "classes")
    config = json.loads((tmp_path / "classes" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"} and "num_labels" not in config
    assert names(tmp_path / "classes") == FILES | {"tokenizer.json"}
    stored = TensorFile(tmp_path / "classes" / "model.safetensors")
    np.testing.assert_array_equal(stored["bert.pooler.dense.weight"], model.hidden.weight.data.T)
    tagger = build_model("bert", nt.TokenClassifier, base.origin.options | {"num_classes": 2})
    tagger.origin = base.origin
    save_pretrained(tagger, tmp_path / "tags")
    assert set(TensorFile(tmp_path / "tags" / "model.safetensors")) == set(stored) - {
        "bert.pooler.dense.weight", "bert.pooler.dense.bias"}


@pytest.mark.parametrize("options", [{"pool": "mean"}, {"hidden": 6}, {"head_activation": "relu"}])
def test_a_head_that_transformers_lacks(options, tmp_path):
    base = load_pretrained(SMALL / "bert")
    base.origin.options = {key: value for key, value in base.origin.options.items() if key != "head_activation"}
    with pytest.raises(ValueError, match="reads the first token, .* transformers cannot read it"):
        save_pretrained(classifier(base.origin, **options), tmp_path / "x")
    assert not (tmp_path / "x").exists()
