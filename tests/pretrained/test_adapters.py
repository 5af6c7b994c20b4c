"""LoRA adapters of PEFT, against the same updates added to the weights in the file of the base."""

import json
import math
import shutil

import numpy as np
import pytest
from helpers.small_checkpoints import SMALL

from numpy_transformer.pretrained import describe_adapter, load_pretrained, save_pretrained
from numpy_transformer.pretrained.safetensors import TensorFile, write_safetensors

LAYERS = {"llama": ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj", "model.layers.1.mlp.down_proj"],
          "gpt2": ["transformer.h.0.attn.c_attn", "transformer.h.1.mlp.c_proj"],
          "bert": ["bert.encoder.layer.0.attention.self.query", "bert.encoder.layer.1.output.dense"],
          "t5": ["encoder.block.1.layer.0.SelfAttention.q", "decoder.block.0.layer.2.DenseReluDense.wo"]}
CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 6, "bias": "none", "target_modules": ["x"], "init_lora_weights": True}


def write_adapter(folder, family, ranks=None, prefix="base_model.model.", **config):
    """Writes an adapter with random updates; returns {layer: (lora_A, lora_B)}."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(3)
    weights = TensorFile(SMALL / family / "model.safetensors")
    updates, arrays = {}, {}
    for number, layer in enumerate(LAYERS[family]):
        d_out, d_in = weights[f"{layer}.weight"].shape[::-1 if family == "gpt2" else 1]
        rank = (ranks or [2] * 9)[number]
        a, b = rng.normal(size=(rank, d_in)).astype(np.float32), rng.normal(size=(d_out, rank)).astype(np.float32)
        updates[layer] = a, b
        arrays |= {f"{prefix}{layer}.lora_A.weight": a, f"{prefix}{layer}.lora_B.weight": b}
    write_safetensors(folder / "adapter_model.safetensors", arrays)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | {"base_model_name_or_path": "owner/name"} | config))
    return updates


def merged_by_hand(family, folder, updates, scales):
    """A copy of the base whose weights in the file are W + s B A; GPT-2 stores the transposes."""
    shutil.copytree(SMALL / family, folder)
    arrays = {name: array.astype(np.float64) for name, array in TensorFile(SMALL / family / "model.safetensors").items()}
    for (layer, (a, b)), s in zip(updates.items(), scales):
        update = s * (b.astype(np.float64) @ a.astype(np.float64))
        arrays[f"{layer}.weight"] += update.T if family == "gpt2" else update
    write_safetensors(folder / "model.safetensors", arrays)
    return folder


@pytest.mark.parametrize("family, config, ranks, scales", [
    ("llama", {}, None, [3, 3, 3]),
    ("gpt2", {"fan_in_fan_out": True, "use_rslora": True}, None, [6 / math.sqrt(2)] * 2),
    ("bert", {"rank_pattern": {"layer.0.attention.self.query": 3}, "alpha_pattern": {r"layer\.1.*dense": 1}}, [3, 2],
     [2, 0.5]),
    ("t5", {"lora_alpha": 1.5}, None, [0.75, 0.75])])
def test_updates_are_merged(family, config, ranks, scales, tmp_path):
    updates = write_adapter(tmp_path / "adapter", family, ranks, **config)
    found = load_pretrained(tmp_path / "adapter", np.float64, base=SMALL / family)
    expected = load_pretrained(merged_by_hand(family, tmp_path / "merged", updates, scales), np.float64)
    base = load_pretrained(SMALL / family, np.float64).state_dict()
    for name, array in expected.state_dict().items():
        np.testing.assert_allclose(found.state_dict()[name], array, rtol=0, atol=1e-13)
    changed = [name for name, array in found.state_dict().items() if not np.array_equal(array, base[name])]
    assert len(changed) == len(LAYERS[family]) + (2 if family == "gpt2" else 0)     # c_attn is query, key and value
    save_pretrained(found, tmp_path / "out")
    assert (tmp_path / "out" / "config.json").exists() and not (tmp_path / "out" / "adapter_config.json").exists()


def test_the_base_is_the_folder_that_the_adapter_names_or_its_own(tmp_path, monkeypatch):
    updates = write_adapter(tmp_path / "adapter", "llama", prefix="", base_model_name_or_path=str(SMALL / "llama"))
    expected = load_pretrained(merged_by_hand("llama", tmp_path / "merged", updates, [3] * 3), np.float64).state_dict()
    found = load_pretrained(tmp_path / "adapter", np.float64).state_dict()
    assert "rank 2, alpha 6, scaled by alpha / rank" in describe_adapter(tmp_path / "adapter")[0]
    (tmp_path / "adapter" / "config.json").write_text("{}")             # no model yet
    assert load_pretrained(tmp_path / "adapter").origin.config["model_type"] == "llama"
    for name in ("config.json", "model.safetensors"):
        shutil.copy(SMALL / "llama" / name, tmp_path / "adapter")
    both = load_pretrained(tmp_path / "adapter", np.float64).state_dict()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-13)
        np.testing.assert_array_equal(both[name], found[name])
    assert describe_adapter(SMALL / "llama") == []


REFUSED = {
    "no base": ({"base_model_name_or_path": "owner/name"}, "holds updates of the model 'owner/name' alone; name the folder"),
    "kind": ({"peft_type": "IA3"}, "peft_type = 'IA3'; this package only reads adapters of the type 'LORA'"),
    "dora": ({"use_dora": True}, r"use_dora \(DoRA"),
    "whole layers": ({"modules_to_save": ["classifier"]}, "modules_to_save .whole layers"),
    "biases": ({"bias": "lora_only"}, "bias = 'lora_only' .trained biases"),
    "pissa": ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights = 'pissa_niter_4'"),
    "rank": ({"r": 4}, "has the rank 2, but adapter_config.json says 4; use"),
    "alpha": ({"lora_alpha": "6"}, "lora_alpha = '6' for model.layers.0.*wanted a number"),
    "pattern": ({"alpha_pattern": [1]}, "alpha_pattern = .1., wanted a JSON object"),
    "expression": ({"alpha_pattern": {"(": 1}}, "no regular expression"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_adapter_that_cannot_be_read(case, tmp_path):
    config, words = REFUSED[case]
    write_adapter(tmp_path / "adapter", "llama", **config)
    with pytest.raises(ValueError, match=words) as error:
        load_pretrained(tmp_path / "adapter", base=None if case == "no base" else SMALL / "llama")
    assert "\n" not in str(error.value) and "; " in str(error.value)


def replace(**arrays):
    return lambda folder, old: write_safetensors(folder / "adapter_model.safetensors", {
        name: array for name, array in (old | arrays).items() if array is not None})


Q = "base_model.model.model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize("change, words", [
    (replace(**{f"{Q}.lora_B.weight": None}), "has only one half of the update of model.layers.0.self_attn.q_proj"),
    (replace(**{f"{Q}.lora_A.weight": np.ones((2, 5), np.float32)}), r"the shapes \(2, 5\) and \(24, 2\), which do not fit"),
    (replace(**{f"{Q}.lora_A.weight": np.full((2, 8), np.nan, np.float32)}), "holds NaN"),
    (replace(**{f"{Q}.lora_magnitude_vector": np.ones(24, np.float32)}), r"no updates of linear layers \(.*magnitude"),
    (replace(**{"base_model.model.x.lora_A.weight": np.ones((2, 8), np.float32),
                "base_model.model.x.lora_B.weight": np.ones((8, 2), np.float32)}),
     "updates x, a layer that this llama model"),
    (lambda folder, old: (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin"),
     "adapter_model.bin stays closed"),
    (lambda folder, old: shutil.copytree(folder, folder.parent / "other"), None)])
def test_files_of_an_adapter_that_do_not_fit(change, words, tmp_path):
    write_adapter(tmp_path / "adapter", "llama")
    change(tmp_path / "adapter", dict(TensorFile(tmp_path / "adapter" / "adapter_model.safetensors")))
    base = SMALL / "llama" if words else tmp_path / "other"
    with pytest.raises(ValueError, match=words or "is an adapter too; name the folder of the model that was adapted"):
        load_pretrained(tmp_path / "adapter", base=base)


def test_a_base_without_an_adapter(tmp_path):
    with pytest.raises(ValueError, match="is given as the base of an adapter, but .* it is no adapter; leave the base out"):
        load_pretrained(SMALL / "gpt2", base=SMALL / "gpt2")
