"""Every family against transformers: logits, every gradient, saving again, reading what we saved, and greedy text."""

import json
import shutil

import numpy as np
import pytest
from helpers.hugging_face import compare, double_precision, edit_config, relative, theirs, write_tiny

import numpy_transformer as nt
from numpy_transformer.pretrained import build_model, load_pretrained, save_pretrained
from numpy_transformer.pretrained.safetensors import TensorFile, write_safetensors

pytestmark = pytest.mark.slow
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 24}
LINEAR = {"rope_type": "linear", "rope_theta": 300.0, "factor": 2.0}
YARN = {"rope_type": "yarn", "rope_theta": 200.0, "factor": 5.0, "original_max_position_embeddings": 16, "beta_fast": 2.0,
        "beta_slow": 0.5}
UNTIED = {"feed_forward_proj": "gated-gelu", "num_decoder_layers": 3}
MODELS = {
    "gpt2": ("GPT2LMHeadModel", "gpt2", {}),
    "gpt2, relu, d_ff left out": ("GPT2LMHeadModel", "gpt2", {"activation_function": "relu", "n_inner": None}),
    "gpt2, untied": ("GPT2LMHeadModel", "gpt2", {"tie_word_embeddings": False}),
    "llama": ("LlamaForCausalLM", "llama", {"rms_norm_eps": 1e-3}),
    "llama, tied, wide heads": ("LlamaForCausalLM", "llama", {"tie_word_embeddings": True, "head_dim": 8}),
    "llama 3": ("LlamaForCausalLM", "llama", {"rope_parameters": LLAMA3}),
    "llama, linear scaling": ("LlamaForCausalLM", "llama", {"rope_parameters": LINEAR, "num_key_value_heads": 1}),
    "mistral": ("MistralForCausalLM", "mistral", {"sliding_window": None}),
    "mistral, a window": ("MistralForCausalLM", "mistral", {"sliding_window": 4}),
    "qwen2, windows": ("Qwen2ForCausalLM", "qwen2", {"sliding_window": 3, "use_sliding_window": True,
                                                     "max_window_layers": 1}),
    "qwen2": ("Qwen2ForCausalLM", "qwen2", {}),
    "llama, yarn": ("LlamaForCausalLM", "llama", {"rope_parameters": YARN | {"attention_factor": 1.4}}),
    "qwen2, yarn": ("Qwen2ForCausalLM", "qwen2", {"rope_parameters": YARN}),
    "qwen3": ("Qwen3ForCausalLM", "qwen3", {}),
    "qwen3, windows": ("Qwen3ForCausalLM", "qwen3", {"sliding_window": 3, "use_sliding_window": True, "max_window_layers": 1}),
    "gemma": ("GemmaForCausalLM", "gemma", {}),
    "gemma 2": ("Gemma2ForCausalLM", "gemma2", {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 4.0}),
    "gemma 2, no caps": ("Gemma2ForCausalLM", "gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None,
                                                         "tie_word_embeddings": False}),
    "gemma 3": ("Gemma3ForCausalLM", "gemma3_text", {"layer_types": [*3 * ["sliding_attention"]], "sliding_window": 5}),
    "gemma 3, capped logits": ("Gemma3ForCausalLM", "gemma3_text", {
        "final_logit_softcapping": 4.0, "tie_word_embeddings": False, "num_hidden_layers": 7}),
    "smollm3": ("SmolLM3ForCausalLM", "smollm3", {}),
    "smollm3, windows": ("SmolLM3ForCausalLM", "smollm3", {"use_sliding_window": True, "sliding_window": 4,
                                                           "no_rope_layer_interval": 2}),
    "olmo 2": ("Olmo2ForCausalLM", "olmo2", {}),
    "phi 3": ("Phi3ForCausalLM", "phi3", {}),
    "phi 4, a window": ("Phi3ForCausalLM", "phi3", {"partial_rotary_factor": 0.75, "sliding_window": 5,
                                                    "tie_word_embeddings": True, "num_attention_heads": 3,
                                                    "num_key_value_heads": 1}),
    "pythia": ("GPTNeoXForCausalLM", "gpt_neox", {}),
    "gpt neox, one after the other": ("GPTNeoXForCausalLM", "gpt_neox", {"use_parallel_residual": False,
                                                                         "hidden_act": "gelu_new"}),
    "gpt oss": ("GptOssForCausalLM", "gpt_oss", {}),
    "mixtral": ("MixtralForCausalLM", "mixtral", {}),
    "mixtral, a window": ("MixtralForCausalLM", "mixtral", {"sliding_window": 4, "num_experts_per_tok": 1}),
    "qwen3 moe": ("Qwen3MoeForCausalLM", "qwen3_moe", {"norm_topk_prob": True}),
    "qwen3 moe, some blocks": ("Qwen3MoeForCausalLM", "qwen3_moe", {"decoder_sparse_step": 2, "sliding_window": 3,
                                                                    "use_sliding_window": True}),
    "deepseek": ("DeepseekV3ForCausalLM", "deepseek_v3", {"rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 0.8}}),
    "deepseek, queries from the vectors": ("DeepseekV3ForCausalLM", "deepseek_v3", {
        "q_lora_rank": None, "n_group": 1, "topk_group": 1, "rope_interleave": False}),
    "bert": ("BertForMaskedLM", "bert", {}),
    "bert, classes": ("BertForSequenceClassification", "bert", {"num_labels": 3}),
    "bert, tags": ("BertForTokenClassification", "bert", {"num_labels": 5, "hidden_act": "gelu_new"}),
    "distilbert": ("DistilBertForMaskedLM", "distilbert", {}),
    "distilbert, classes": ("DistilBertForSequenceClassification", "distilbert", {"num_labels": 3}),
    "distilbert, tags": ("DistilBertForTokenClassification", "distilbert", {"num_labels": 5}),
    "roberta": ("RobertaForMaskedLM", "roberta", {"layer_norm_eps": 1e-5}),
    "roberta, classes": ("RobertaForSequenceClassification", "roberta", {"num_labels": 3, "type_vocab_size": 1}),
    "roberta, tags": ("RobertaForTokenClassification", "roberta", {"num_labels": 5}),
    "xlm-roberta": ("XLMRobertaForMaskedLM", "xlm-roberta", {"type_vocab_size": 1}),
    "camembert, tags": ("CamembertForTokenClassification", "camembert", {"num_labels": 5}),
    "modernbert": ("ModernBertForMaskedLM", "modernbert", {}),
    "modernbert, classes": ("ModernBertForSequenceClassification", "modernbert", {"num_labels": 3,
                                                                                  "classifier_pooling": "mean"}),
    "bart": ("BartForConditionalGeneration", "bart", {}),
    "bart, fewer blocks": ("BartForConditionalGeneration", "bart", {"decoder_layers": 1, "scale_embedding": True,
                                                                    "activation_function": "relu"}),
    "marian": ("MarianMTModel", "marian", {"scale_embedding": True}),
    "vit": ("ViTForImageClassification", "vit", {}),
    "vit, oblong": ("ViTForImageClassification", "vit", {"image_size": [6, 12], "patch_size": [3, 4], "hidden_act": "relu",
                                                         "num_channels": 2}),
    "t5": ("T5ForConditionalGeneration", "t5", {}),
    "mt5": ("MT5ForConditionalGeneration", "mt5", {}),
    "mt5, an output of its own": ("MT5ForConditionalGeneration", "mt5", {"num_decoder_layers": 3}),
    "t5 1.1": ("T5ForConditionalGeneration", "t5", UNTIED),
    "t5 1.1, saved by transformers 5": ("T5ForConditionalGeneration", "t5", UNTIED),
}


@pytest.fixture(scope="module", autouse=True)
def libraries():
    """(torch, transformers), which take seconds to import."""
    return pytest.importorskip("torch"), pytest.importorskip("transformers")


@pytest.fixture(params=MODELS)
def checkpoint(request, tmp_path):
    """(folder, architecture, family) of a tiny model that transformers has saved."""
    architecture, family, options = MODELS[request.param]
    folder = write_tiny(tmp_path / "checkpoint", architecture, family, **options)
    if request.param.startswith("t5 1.1") or request.param.endswith("of its own"):
        untie(folder)
    if request.param.endswith("saved by transformers 5"):
        from transformers import T5ForConditionalGeneration

        T5ForConditionalGeneration.from_pretrained(folder).save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text())
        assert config["tie_word_embeddings"] and not config["scale_decoder_outputs"]
    return folder, architecture, family


def untie(folder):
    """Gives a T5 an output of its own, and config.json the form of T5 1.1 in version 4 of transformers."""
    arrays = dict(TensorFile(folder / "model.safetensors"))
    arrays["lm_head.weight"] = np.random.default_rng(5).normal(size=arrays["shared.weight"].shape).astype(np.float32)
    write_safetensors(folder / "model.safetensors", arrays)
    edit_config(folder, tie_word_embeddings=False, scale_decoder_outputs=...)


PADDING = {"roberta": 1, "xlm-roberta": 1, "camembert": 1, "bart": 1, "marian": 60}     # 0 in the others
STARTS = {"t5": 0, "mt5": 0, "bart": 2, "marian": 60}


def batch(family, architecture, left=False, **options):
    """(our inputs, their inputs, targets): two texts, one with padding.

    Classes are read from the first token, so texts for them have no padding on the left.
    """
    rng = np.random.default_rng(7)
    if family == "vit":
        (height, width), channels = options.get("image_size", (12, 12)), options.get("num_channels", 3)
        images = rng.normal(size=(2, channels, height, width))
        return ((images,), {}), {"pixel_values": images}, rng.integers(0, 3, 2)
    pad = PADDING.get(family, 0)
    ids = rng.integers(3, 60, (2, 11))
    mask = np.ones(ids.shape, bool)
    mask[1, slice(4) if left and "Sequence" not in architecture else slice(7, None)] = False
    ids[~mask] = pad
    given = {"input_ids": ids, "attention_mask": mask.astype(int)}
    if family in STARTS:
        start = np.hstack([np.full((2, 1), STARTS[family]), rng.integers(3, 60, (2, 7))])
        targets = rng.integers(0, 61, start.shape)
        return ((ids, start), {"source_mask": mask}), given | {"decoder_input_ids": start}, targets
    if family in ("bert", "distilbert", "modernbert") or pad:
        segments = None
        if family == "bert":
            segments = given["token_type_ids"] = rng.integers(0, 3, ids.shape)
        classes = {"SequenceClassification": 3, "TokenClassification": 5}
        count = next((n for name, n in classes.items() if architecture.endswith(name)), 61)
        targets = rng.integers(0, count, len(ids) if count == 3 else ids.shape)
        return ((ids, mask, segments), {}), given, targets if count == 3 else np.where(mask, targets, -1)
    given["position_ids"] = np.maximum(mask.cumsum(-1) - 1, 0)
    return ((ids, mask), {}), given, np.where(mask, rng.integers(0, 61, ids.shape), -1)


@pytest.mark.parametrize("left", [False, True])
def test_logits_and_every_gradient(checkpoint, tmp_path, left):
    folder, architecture, family = checkpoint
    options = json.loads((folder / "config.json").read_text())
    options = options if isinstance(options.get("image_size"), list) else {}
    errors = compare(folder, architecture, *batch(family, architecture, left, **options), tmp_path)
    worst = max(errors, key=errors.get)
    assert errors[worst] < 1e-9, worst          # key biases have a gradient of zero, up to rounding
    assert errors["logits"] < 1e-12


def test_saved_again_bit_for_bit(checkpoint, tmp_path):
    folder, *_ = checkpoint
    save_pretrained(load_pretrained(folder), tmp_path / "again")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transformers_reads_our_export(checkpoint, tmp_path, dtype, libraries):
    torch, transformers = libraries
    folder, architecture, family = checkpoint
    model = load_pretrained(folder, dtype)
    rng = np.random.default_rng(1)
    for parameter in model.parameters():
        changed = parameter.data + 0.1 * rng.normal(size=parameter.data.shape)
        parameter.data = changed.astype(np.float32)         # transformers reads some weights in float32, whatever it is told
    save_pretrained(model, tmp_path / "out")
    options = json.loads((folder / "config.json").read_text())
    options = options if isinstance(options.get("image_size"), list) else {}
    inputs, given, targets = batch(family, architecture, **options)
    read, info = getattr(transformers, architecture).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert read.dtype == getattr(torch, dtype)
    read = theirs(tmp_path / "out", architecture)
    with double_precision(), torch.no_grad():
        expected = read(**{name: torch.tensor(value) for name, value in given.items()}).logits.numpy()
    found = model(*inputs[0], **inputs[1])
    real = targets >= 0
    assert relative(found[real], expected[real]) < {"float32": 2e-5, "float64": 1e-9}[dtype]


@pytest.mark.parametrize("name", [name for name, (architecture, _, _) in MODELS.items()
                                  if architecture.endswith(("ForCausalLM", "LMHeadModel"))])
def test_greedy_text(name, tmp_path, libraries):
    torch, _ = libraries
    architecture, family, options = MODELS[name]
    folder = write_tiny(tmp_path / "checkpoint", architecture, family, **options)
    prompt = np.random.default_rng(2).integers(3, 61, 5)
    model = theirs(folder, architecture)
    with double_precision():
        expected = model.generate(torch.tensor(prompt[None]), do_sample=False, max_new_tokens=12, eos_token_id=None,
                                  pad_token_id=0)
    found = nt.generate(load_pretrained(folder, np.float64), prompt, 12, temperature=0)
    assert np.ravel(found)[-12:].tolist() == expected[0, 5:].tolist()


@pytest.mark.parametrize("name", ["t5", "mt5", "bart", "marian"])
def test_greedy_target(name, tmp_path, libraries):
    """Of two sources of different lengths, in one batch."""
    torch, _ = libraries
    architecture, family, options = MODELS[name]
    folder = write_tiny(tmp_path / "checkpoint", architecture, family, **options)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (ids, start), _ = batch(family, architecture)[0]
    mask = batch(family, architecture)[1]["attention_mask"]
    model = theirs(folder, architecture)
    model.generation_config = type(model.generation_config)()
    with double_precision():
        expected = model.generate(torch.tensor(ids), attention_mask=torch.tensor(mask), do_sample=False, num_beams=1,
                                  max_new_tokens=12, decoder_start_token_id=int(start[0, 0]), eos_token_id=None, pad_token_id=0)
    found = nt.greedy_decode(load_pretrained(folder, np.float64), ids, start[0, 0], 10 ** 9, 12)
    np.testing.assert_array_equal(found, expected[:, 1:].numpy())


@pytest.mark.parametrize("architecture, family", [
    ("BertModel", "bert"), ("RobertaModel", "roberta"), ("DistilBertModel", "distilbert"), ("CamembertModel", "camembert"),
    ("XLMRobertaModel", "xlm-roberta"), ("ModernBertModel", "modernbert")])
@pytest.mark.parametrize("named", ["its own class", "masked words", "classes"])
def test_an_encoder_without_a_head(architecture, family, named, tmp_path, libraries):
    """config.json may name a class with a head, whose weights the files do not have."""
    torch, _ = libraries
    folder = write_tiny(tmp_path / "checkpoint", architecture, family)
    ends = {"its own class": "Model", "masked words": "ForMaskedLM", "classes": "ForSequenceClassification"}
    edit_config(folder, architectures=[architecture.removesuffix("Model") + ends[named]])
    inputs, given, _ = batch(family, architecture)
    read = theirs(folder, architecture)
    with double_precision(), torch.no_grad():
        expected = read(**{name: torch.tensor(value) for name, value in given.items()})
    model = load_pretrained(folder, np.float64)
    mask = inputs[0][1]
    assert relative(model(*inputs[0])[mask], expected.last_hidden_state.numpy()[mask]) < 1e-9
    save_pretrained(load_pretrained(folder), tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("architecture, family", [
    ("GPT2Model", "gpt2"), ("LlamaModel", "llama"), ("T5Model", "t5"), ("Qwen3Model", "qwen3"), ("GPTNeoXModel", "gpt_neox"),
    ("Gemma3TextModel", "gemma3_text"), ("BartModel", "bart")])
def test_names_without_a_prefix(architecture, family, tmp_path):
    folder = write_tiny(tmp_path / "checkpoint", architecture, family, tie_word_embeddings=True)
    model = load_pretrained(folder)
    save_pretrained(model, tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    named = {name.removeprefix("transformer.").removeprefix("model."): value
             for name, value in TensorFile(folder / "model.safetensors").items()}
    assert model.num_parameters() == sum(value.size for value in named.values())


def test_a_head_of_another_class_is_saved_as_the_architecture_that_has_it(tmp_path, libraries):
    torch, transformers = libraries
    folder = write_tiny(tmp_path / "checkpoint", "BertModel", "bert", hidden_act="relu")
    base = load_pretrained(folder)
    head = {"num_classes": 4, "hidden": 24, "pool": "first", "head_activation": "tanh"}
    classifier = build_model("bert", nt.SequenceClassifier, base.origin.options | head, 0)
    classifier.origin = base.origin
    save_pretrained(classifier.eval(), tmp_path / "out")
    auto = transformers.AutoModelForSequenceClassification
    read, info = auto.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids = np.random.default_rng(3).integers(3, 61, (2, 9))
    with torch.no_grad():
        expected = read.eval()(torch.tensor(ids)).logits.numpy()
    assert relative(classifier(ids), expected) < 2e-5


def test_a_sharded_checkpoint_is_the_same(tmp_path, libraries):
    folder = write_tiny(tmp_path / "checkpoint", "BertForMaskedLM", "bert")
    libraries[1].BertForMaskedLM.from_pretrained(folder).save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert not (tmp_path / "shards" / "model.safetensors").exists()
    save_pretrained(load_pretrained(tmp_path / "shards"), tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_converted_exactly(dtype, tmp_path, libraries):
    torch, transformers = libraries
    folder = write_tiny(tmp_path / "checkpoint", "LlamaForCausalLM", "llama")
    half = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    shutil.rmtree(folder)
    half.save_pretrained(folder)
    model = load_pretrained(folder)
    expected = half.state_dict()["model.layers.1.mlp.up_proj.weight"].float().numpy()
    found = model.decoder.blocks[1].feed_forward.up.weight.data
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected.T)
