"""Small checkpoints with values that transformers has computed; helpers/small_checkpoints.py has written them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.small_checkpoints import FLOAT32, SIZES, SMALL

import numpy_transformer as nt
from numpy_transformer.module import unfilled
from numpy_transformer.pretrained import (Origin, build_model, class_and_options, load_pretrained, remarks, rules,
                                          save_pretrained)
from numpy_transformer.pretrained.load import sizes_of
from numpy_transformer.pretrained.registry import describe_config
from numpy_transformer.pretrained.safetensors import TensorEntry, TensorFile, write_safetensors


def call(model, name, values):
    """The logits of our model for the stored inputs."""
    if name == "vit":
        return model(values["in.pixel_values"])
    ids, mask = values["in.input_ids"], values["in.attention_mask"].astype(bool)
    if "in.decoder_input_ids" in values:
        return model(ids, values["in.decoder_input_ids"], source_mask=mask)
    return model(ids, mask, values["in.token_type_ids"]) if name == "bert" else model(ids, mask)


@pytest.mark.parametrize("name", SIZES)
def test_logits_and_gradients_are_those_of_transformers(name):
    values = np.load(SMALL / name / "values.npz")
    model = load_pretrained(SMALL / name, np.float64).eval(remember=True)
    real = values["targets"] >= 0
    logits = call(model, name, values)
    np.testing.assert_allclose(logits[real], values["logits"][real], rtol=0, atol=1e-12 * abs(values["logits"]).max())
    criterion = nt.CrossEntropyLoss()
    criterion(logits[real], values["targets"][real])
    dlogits = np.zeros_like(logits)
    dlogits[real] = criterion.backward()
    model.backward(dlogits)
    gradients = {part: parameter.grad for part, parameter in model.named_parameters()}
    trained = {part for part, parameter in model.named_parameters() if not parameter.frozen}
    found = {rule.theirs: rule.join(gradients) for rule in rules(model) if set(rule.ours) <= trained}
    expected = {part.removeprefix("gradient."): value for part, value in values.items() if part.startswith("gradient.")}
    assert set(found) == set(expected)
    largest = max(abs(array).max() for array in expected.values())
    precision = 1e-6 if name in FLOAT32 else 1e-9
    for part, array in expected.items():        # those that are zero up to rounding are far below the largest
        assert abs(found[part] - array).max() < precision * abs(array).max() + 1e-12 * largest, part


@pytest.mark.parametrize("family", SIZES)
def test_a_saved_checkpoint_is_the_same_bit_for_bit(family, tmp_path):
    steps = []
    model = load_pretrained(SMALL / family, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(n, len(steps)) for n in range(1, len(steps) + 1)]
    assert not model.training and {p.data.dtype for p in model.parameters()} == {np.dtype(np.float32)}
    save_pretrained(model, tmp_path / "again")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (SMALL / family / name).read_bytes()


def test_describe_gives_the_class_and_the_arguments_of_the_model():
    model_class, options = class_and_options(SMALL / "llama")
    assert model_class is nt.CausalLanguageModel
    model = build_model("llama", model_class, options)
    loaded = load_pretrained(SMALL / "llama")
    assert [(name, p.data.shape) for name, p in model.named_parameters()] == [
        (name, p.data.shape) for name, p in loaded.named_parameters()]
    assert loaded.origin.options == options and json.dumps(options)


def test_a_model_with_lora_is_saved_as_its_merged_self(tmp_path):
    model = load_pretrained(SMALL / "gpt2", np.float64)
    nt.add_lora(model, rank=2, targets=("query", "value"), alpha=3.0, rng=0)
    rng = np.random.default_rng(1)
    for name, parameter in model.named_parameters():
        if name.endswith(".B"):
            parameter.data = rng.normal(size=parameter.data.shape)
    ids = rng.integers(0, 19, (2, 6))
    expected = model(ids)
    save_pretrained(model, tmp_path / "out")
    np.testing.assert_array_equal(model(ids), expected)                 # saving has not changed the model
    found = load_pretrained(tmp_path / "out", np.float64)
    assert not any(isinstance(module, nt.LoRALinear) for _, module in found.named_modules())
    np.testing.assert_allclose(found(ids), expected, rtol=0, atol=1e-12)


def changed_folder(family, folder, change):
    """A copy of a small checkpoint, whose dict of arrays goes through `change`."""
    shutil.copytree(SMALL / family, folder)
    arrays = dict(TensorFile(folder / "model.safetensors"))
    write_safetensors(folder / "model.safetensors", change(arrays))
    return folder


YARN = {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 2.0,
                         "beta_slow": 0.5}, "rope_theta": 100.0}
OLDER_CONFIGS = {                               # what else published files say, in the place of options that are left out
    "llama-yarn": YARN,
    "qwen3": {"rope_theta": 1000.0, "layer_types": ...},
    "gemma2": {"rope_theta": 10000.0, "layer_types": ..., "hidden_act": "gelu_pytorch_tanh", "cache_implementation": "hybrid",
               "tie_word_embeddings": ...},
    "gemma3": {"rope_theta": 1000.0, "rope_local_base_freq": 100.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0},
               "layer_types": ..., "_sliding_window_pattern": ..., "sliding_window_pattern": 2},
    "smollm3": {"rope_theta": 300.0, "no_rope_layers": ..., "no_rope_layer_interval": 2, "layer_types": ...},
    "olmo2": {"rope_theta": 10000.0},
    "phi3": {"rope_theta": 100.0, "partial_rotary_factor": 0.5, "rope_scaling": None},
    "gpt_neox": {"rotary_emb_base": 100, "rotary_pct": 0.5},
    "gpt_oss": YARN | {"rope_scaling": YARN["rope_scaling"] | {"truncate": False}, "layer_types": ...},
    "mixtral": {},
    "qwen3_moe": {"num_local_experts": ..., "num_experts": 4, "mlp_only_layers": [], "decoder_sparse_step": 2},
    "deepseek_v3": YARN | {"rope_scaling": YARN["rope_scaling"] | {"mscale": 0.7, "mscale_all_dim": 1.3}},
    "modernbert": {"global_rope_theta": 1000.0, "local_rope_theta": 100.0, "layer_types": ...},
}


@pytest.mark.parametrize("name", OLDER_CONFIGS)
def test_config_json_as_published(name, tmp_path):
    """Version 5 of transformers has collected the rotary settings in one dict, and writes out which block is of which type."""
    folder = changed_folder(name, tmp_path / "older", lambda arrays: arrays)
    config = json.loads((folder / "config.json").read_text()) | {"rope_parameters": ...} | OLDER_CONFIGS[name]
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))
    values = np.load(SMALL / name / "values.npz")
    logits = call(load_pretrained(folder, np.float64), name, values)
    np.testing.assert_array_equal(logits, call(load_pretrained(SMALL / name, np.float64), name, values))


def test_a_stack_of_experts_counts_as_many_arrays():
    """gpt-oss-20b: 24 blocks of 32 experts have 4,900 parameters in 411 arrays."""
    sizes = {"num_hidden_layers": 24, "num_local_experts": 32, "layer_types": None}
    config = json.loads((SMALL / "gpt_oss" / "config.json").read_text()) | sizes
    model_class, options = describe_config(config, {})
    model = build_model("gpt_oss", model_class, options, 0)
    model.origin = Origin("gpt_oss", config, options=options)
    entries = {rule.theirs: TensorEntry("F32", rule.shape, 0, 0) for rule in rules(model)}
    assert len(entries) == 411 and len(model.parameters()) > 4900
    with unfilled(*sizes_of(SimpleNamespace(entries=entries))):
        build_model("gpt_oss", model_class, options)
    hostile = {"x": TensorEntry("F32", (10 ** 12, 0, 0), 0, 0)}
    assert sizes_of(SimpleNamespace(entries=hostile)) == (0, 1)


def test_marian_files_with_the_table_of_sinusoids(tmp_path):
    """It is not read, and saved again."""
    table = {f"model.{side}.embed_positions.weight": np.full((9, 8), 7, np.float32) for side in ("encoder", "decoder")}
    model = load_pretrained(changed_folder("marian", tmp_path / "older", lambda arrays: arrays | table), np.float64)
    values = np.load(SMALL / "marian" / "values.npz")
    np.testing.assert_allclose(call(model, "marian", values), values["logits"], rtol=0, atol=1e-12)
    save_pretrained(model, tmp_path / "again")
    saved = TensorFile(tmp_path / "again" / "model.safetensors")
    assert set(saved) == {*TensorFile(SMALL / "marian" / "model.safetensors"), *table}
    assert (saved["model.encoder.embed_positions.weight"] == 7).all()


def older(arrays):
    """Names and constants as in files of 2019."""
    renamed = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): array
               for name, array in arrays.items()}
    return renamed | {"bert.embeddings.position_ids": np.arange(8)[None],
                      "cls.predictions.decoder.weight": arrays["bert.embeddings.word_embeddings.weight"],
                      "cls.predictions.decoder.bias": arrays["cls.predictions.bias"],
                      "bert.pooler.dense.weight": np.full((8, 8), 3, np.float32),
                      "bert.pooler.dense.bias": np.full(8, 4, np.float32),
                      "cls.seq_relationship.weight": np.full((2, 8), 5, np.float32),
                      "cls.seq_relationship.bias": np.full(2, 6, np.float32)}


@pytest.mark.parametrize("architecture", ["BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification",
                                          "BertForTokenClassification"])
def test_the_weights_of_an_encoder_alone_load_as_an_encoder(architecture, tmp_path):
    """Also where a pooler is among them, which a classifier would use as its hidden layer."""
    pooler = {"bert.pooler.dense.weight": np.ones((8, 8), np.float32), "bert.pooler.dense.bias": np.ones(8, np.float32)}
    folder = changed_folder("bert", tmp_path / "encoder", lambda arrays: pooler | {
        name: array for name, array in arrays.items() if not name.startswith("cls.")})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": [architecture]}))
    model = load_pretrained(folder, np.float64)
    whole = load_pretrained(SMALL / "bert", np.float64)
    ids = np.array([[4, 7, 5]])
    assert type(model) is nt.TextEncoder
    np.testing.assert_array_equal(model(ids), nt.TextEncoder.forward(whole, ids))
    assert "no weights of its head" in remarks(model)[0] and not remarks(whole)
    save_pretrained(model, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["architectures"] == ["BertModel"]
    np.testing.assert_array_equal(load_pretrained(tmp_path / "again", np.float64)(ids), model(ids))
    assert "pooler.dense.weight" in TensorFile(tmp_path / "again" / "model.safetensors")


def test_files_with_older_names_and_more_arrays(tmp_path):
    model = load_pretrained(changed_folder("bert", tmp_path / "older", older))
    expected = load_pretrained(SMALL / "bert").state_dict()
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, expected[name])
    save_pretrained(model, tmp_path / "again")
    saved = TensorFile(tmp_path / "again" / "model.safetensors")
    extra = set(saved) - set(TensorFile(SMALL / "bert" / "model.safetensors"))
    assert extra == {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "cls.seq_relationship.weight",
                     "cls.seq_relationship.bias"}
    np.testing.assert_array_equal(saved["cls.seq_relationship.bias"], [6, 6])


def without_head(arrays):
    return {name.removeprefix("bert."): array for name, array in arrays.items() if name.startswith("bert.")}


def published_gpt2(arrays):
    """Without the prefix, and with the masks of early versions of transformers."""
    masks = {f"transformer.h.{n}.attn.bias": np.tri(8, dtype=bool)[None, None] for n in range(2)}
    masks |= {f"transformer.h.{n}.attn.masked_bias": np.float32([-1e4]) for n in range(2)}
    return {name.removeprefix("transformer."): array for name, array in (arrays | masks).items()}


def copied_t5(arrays):
    """With the embedding under all its names."""
    names = ("lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    return arrays | {name: arrays["shared.weight"] for name in names}


@pytest.mark.parametrize("family, change", [("gpt2", published_gpt2), ("t5", copied_t5)])
def test_what_published_files_have_besides(family, change, tmp_path):
    model = load_pretrained(changed_folder(family, tmp_path / "x", change))
    save_pretrained(model, tmp_path / "again")
    assert ((tmp_path / "again" / "model.safetensors").read_bytes()
            == (SMALL / family / "model.safetensors").read_bytes())


def test_config_json_may_name_no_architecture(tmp_path):
    for name, change, expected in (("heads", older, nt.MaskedLanguageModel), ("none", without_head, nt.TextEncoder)):
        folder = changed_folder("bert", tmp_path / name, change)
        config = json.loads((folder / "config.json").read_text())
        del config["architectures"]
        (folder / "config.json").write_text(json.dumps(config))
        assert type(load_pretrained(folder)) is expected


def test_a_tied_weight_under_its_second_name_alone(tmp_path):
    def second(arrays):
        embedding = arrays.pop("bert.embeddings.word_embeddings.weight")
        return arrays | {"cls.predictions.decoder.weight": embedding}

    model = load_pretrained(changed_folder("bert", tmp_path / "second", second))
    np.testing.assert_array_equal(model.embedding.weight.data, load_pretrained(SMALL / "bert").embedding.weight.data)


def test_a_sentence_encoder_pools_and_normalizes(tmp_path):
    folder = changed_folder("bert", tmp_path / "sentences", without_head)
    config = json.loads((folder / "config.json").read_text()) | {"architectures": ["BertModel"]}
    (folder / "config.json").write_text(json.dumps(config))
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    (folder / "modules.json").write_text(json.dumps(
        [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]))
    (folder / "1_Pooling").mkdir()
    ids = np.array([[3, 4, 5, 6], [7, 8, 0, 0]])
    for chosen, rows in (("mean_tokens", [[0, 1, 2, 3], [0, 1]]), ("cls_token", [[0], [0]])):
        modes = {f"pooling_mode_{name}": name == chosen for name in ("cls_token", "mean_tokens", "max_tokens")}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 8} | modes))
        model = load_pretrained(folder, np.float64)
        vectors = model(ids)
        expected = np.array([vectors[n][chosen_rows].mean(0) for n, chosen_rows in enumerate(rows)])
        expected /= np.sqrt((expected ** 2).sum(-1, keepdims=True))
        np.testing.assert_allclose(model.embed(ids), expected, rtol=1e-12)
        save_pretrained(model, tmp_path / "again")
        for name in ("modules.json", "1_Pooling/config.json"):
            assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
        assert (set(TensorFile(tmp_path / "again" / "model.safetensors"))
                == set(TensorFile(folder / "model.safetensors")))       # without the prefix "bert."
        (tmp_path / "again" / "1_Pooling" / "config.json").unlink()


PEAK = """
import sys
import numpy_transformer as nt

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) * 1024

before = peak()
model = nt.load_pretrained(sys.argv[1])
print((peak() - before) / (4 * model.num_parameters()))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_the_weights_are_in_memory_once(tmp_path):
    origin = load_pretrained(SMALL / "gpt2").origin
    sizes = {"vocab_size": 8000, "d_model": 512, "num_heads": 8, "num_layers": 8, "d_ff": 2048}
    model = build_model("gpt2", nt.CausalLanguageModel, origin.options | sizes, 0)
    model.origin = origin
    origin.config |= {"vocab_size": 8000, "n_embd": 512, "n_head": 8, "n_layer": 8, "n_inner": 2048}
    save_pretrained(model, tmp_path / "large")
    command = [sys.executable, "-c", PEAK, str(tmp_path / "large")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(nt.__file__).parents[1])
    assert float(run.stdout) < 1.3, run.stdout
