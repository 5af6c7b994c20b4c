"""What does not fit is refused in one sentence, before a weight is read."""

import json
import os
import shutil

import numpy as np
import pytest
from helpers.small_checkpoints import SIZES, SMALL

import numpy_transformer as nt
from numpy_transformer.pretrained import class_and_options, load, load_pretrained
from numpy_transformer.pretrained.registry import FAMILIES
from numpy_transformer.pretrained.safetensors import TensorFile, write_safetensors
from numpy_transformer.pretrained.unsupported import BUILT, OF_ARRAYS, OF_FAMILIES, OF_FIXED, OF_OPTIONS, components


def edit(**changes):
    """Changes values in config.json; ... removes one."""
    def change(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))
    return change


def weights(change):
    """Changes the dict of arrays in model.safetensors."""
    def changed(folder):
        arrays = dict(TensorFile(folder / "model.safetensors"))
        change(arrays)
        write_safetensors(folder / "model.safetensors", arrays)
    return changed


def instead(name, data=b"PK\x03\x04"):
    """Another file in the place of model.safetensors."""
    def change(folder):
        (folder / "model.safetensors").unlink()
        (folder / name).write_bytes(data)
    return change


def shards(folder, lost=(), moved=None):
    """The same arrays in two files and an index."""
    arrays = dict(TensorFile(folder / "model.safetensors"))
    (folder / "model.safetensors").unlink()
    names = sorted(arrays)
    listed = {name: f"model-0000{1 + (n % 2)}-of-00002.safetensors" for n, name in enumerate(names)}
    for file in set(listed.values()):
        write_safetensors(folder / file, {name: arrays[name] for name in names
                                          if listed[name] == file and name not in lost})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed | (moved or {})}))


def lost_shard(folder):
    shards(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()


def truncated(folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-100])


def put(name, array):
    return weights(lambda arrays: arrays.update({name: array}))


def drop(*names):
    return weights(lambda arrays: [arrays.pop(name) for name in names])


def spoil(value):
    return weights(lambda arrays: np.put(arrays["transformer.wpe.weight"], 3, value))


Q = "model.layers.0.self_attn.q_proj.weight"
WORD = "bert.embeddings.word_embeddings.weight"
CASES = {
    "family": ("gpt2", edit(model_type="gptj"),
               "'gptj', a family that .* not build .it has attention .*side by side.*; load .* families gpt2, llama, "),
    "no family": ("gpt2", edit(model_type=...), "has no model_type, .*; copy the complete file, of a .* families gpt2"),
    "head": ("bert", edit(architectures=["BertForQuestionAnswering"]),
             "'BertForQuestionAnswering', a head that marks .*BertForMaskedLM"),
    "no setting": ("gpt2", edit(n_embd=...), "config.json has no 'n_embd'"),
    "setting of another type": ("bert", edit(hidden_size="8"), "gives hidden_size = '8', wanted a whole number of at least 1;"),
    "settings of another type": ("llama", edit(rope_parameters="default"),
                                 "gives rope_parameters = 'default', wanted an object;"),
    "heads": ("gpt2", edit(n_head=3), "d_model = 8 is not divisible by num_heads = 3"),
    "too many blocks": ("gpt2", edit(n_layer=10 ** 4), "10000 blocks, but the files hold 28 arrays"),
    "width": ("bert", edit(hidden_size=8_000_000), "cannot be built .*many more numbers than the 1,419"),
    "vocabulary of any size": ("t5", edit(vocab_size=10 ** 12), "cannot be built .*many more numbers than the "),
    "width of a head": ("llama", edit(head_dim=2 ** 40), "cannot be built .*many more numbers than the "),
    "scaled head": ("llama", edit(head_dim=2 ** 40, rope_parameters={"rope_type": "linear", "factor": 2.0}),
                    "many more numbers than"),
    "blocks of the decoder": ("t5", edit(num_decoder_layers=10 ** 4), "many more weights than the "),
    "width of 400 digits": ("gpt2", edit(n_embd=10 ** 400), "cannot be built"),
    "activation": ("gpt2", edit(activation_function="quick_gelu"), "'quick_gelu'; this package supports gelu"),
    "scores": ("gpt2", edit(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx = True"),
    "scale": ("gpt2", edit(scale_attn_weights=False), "scale_attn_weights = False"),
    "norms of queries": ("llama", put("model.layers.0.self_attn.q_norm.weight", np.ones(6, np.float32)),
                         r"unknown \(model.*q_norm.weight\); some belong to norms of queries and keys in attention"),
    "no decoder": ("t5", weights(lambda a: [a.pop(name) for name in [*a] if name.startswith("decoder.")]),
                   r"have no decoder \(28 arrays are missing, such as decoder.block.0"),
    "a head without a name": ("bert", edit(architectures=["BertModel"]), "some belong to a head that config.json does not"),
    "a newer family": ("llama", edit(model_type="gemma3"),
                       "'gemma3', a family that this package does not build .it has an encoder of images beside "),
    "layers of unknown types": ("gemma2", edit(layer_types=["full_attention", "chunked_attention"]),
                                "'chunked_attention'., wanted full_attention or sliding_attention, which this package"),
    "sizes of two stacks": ("bart", edit(decoder_ffn_dim=20), "encoder_ffn_dim = 12 and decoder_ffn_dim = 20; "),
    "embeddings of two languages": ("marian", edit(share_encoder_decoder_embeddings=False),
                                    "an encoder with an embedding of its own"),
    "weights in four bits": ("gpt_oss", edit(quantization_config={"quant_method": "mxfp4"}), "quantized weights"),
    "both directions": ("gemma3", edit(use_bidirectional_attention=True), "a decoder without a causal mask"),
    "long texts": ("phi3", edit(rope_parameters={"rope_type": "longrope"}), "one list of factors for short texts"),
    "factor of yarn": ("llama-yarn", edit(rope_parameters={"rope_type": "yarn", "factor": 0}), "gives factor = 0, wanted"),
    "attention factor": ("llama-yarn", edit(rope_parameters={"rope_type": "yarn", "factor": 2, "attention_factor": -1.0}),
                         "gives attention_factor = -1.0, wanted a number above 0 and up to 100;"),
    "images": ("vit", edit(image_size=7), "a multiple of 2, a multiple of 2"),
    "experts": ("mixtral", edit(num_local_experts=3), "unknown"),
    "an unknown family": ("llama", edit(model_type="x", num_local_experts=4, vision_config={"depth": 2}),
                          "'x', a family that this package does not build .it has an encoder of images.; load"),
    "a family of known parts": ("qwen3", edit(model_type="qwen9", num_local_experts=4, attn_logit_softcapping=3.0),
                                "'qwen9', a family that this package does not build; load"),
    "a decoder's classes": ("llama", edit(architectures=["LlamaForSequenceClassification"]), "classifies a text by its last"),
    "biases": ("llama", edit(attention_bias=True), "attention_bias = True"),
    "mlp biases": ("llama", edit(mlp_bias=True), "mlp_bias = True"),
    "rope type": ("llama", edit(rope_parameters={"rope_type": "longrope"}), "'longrope'.; this package supports "),
    "older rope type": ("llama", edit(rope_parameters=..., rope_scaling={"type": "dynamic", "factor": 2}), "'dynamic'"),
    "eps": ("llama", edit(rms_norm_eps="1e-5"), "gives rms_norm_eps = '1e-5', wanted a number above 0 and up to 1"),
    "no eps": ("bert", edit(layer_norm_eps=0), "gives layer_norm_eps = 0, wanted"),
    "rope base": ("llama", edit(rope_parameters={"rope_theta": -5.0}), "gives rope_theta = -5.0, wanted a number above 1;"),
    "rope factor": ("llama", edit(rope_parameters={"rope_type": "linear", "factor": -2}), "factor = -2, wanted a number"),
    "frequencies": ("llama", edit(rope_parameters={"rope_type": "linear", "factor": 0.5}), "lead to rope_frequencies = 2.0"),
    "rope factor 0": ("llama", edit(rope_parameters={"rope_type": "linear", "factor": 0}), "factor = 0, wanted a number"),
    "rope setting": ("llama", edit(rope_parameters={"rope_type": "linear"}), "config.json has no 'factor'"),
    "partial": ("llama", edit(partial_rotary_factor=0.5), "only a part of each head"),
    "quantized": ("llama", edit(quantization_config={"bits": 4}), "quantized weights"),
    "decoder": ("bert", edit(is_decoder=True), "is_decoder = True"),
    "relative positions": ("bert", edit(position_embedding_type="relative_key"), "position_embedding_type"),
    "encoder alone": ("t5", edit(is_encoder_decoder=False), "is_encoder_decoder = False"),
    "gate": ("t5", edit(feed_forward_proj="gated-elu"), "activation 'elu'"),
    "vocabulary": ("gpt2", edit(vocab_size=20), r"wte.weight has the shape \(19, 8\) instead of \(20, 8\)"),
    "transposed": ("llama", weights(lambda a: a.update({Q: a[Q].T})), r"has the shape \(8, 24\) instead of \(24, 8\)"),
    "missing": ("gpt2", drop("transformer.ln_f.weight", "transformer.h.1.ln_1.bias"),
                r"2 arrays are missing \(transformer.h.1.ln_1.bias, transformer.ln_f.weight\)"),
    "missing and unknown": ("bert", weights(lambda a: a.update({"x": a.pop(WORD)})),
                            r"1 array is missing \(bert.*\) and 1 array is unknown \(x\)"),
    "no output": ("llama", drop("lm_head.weight"),
                  r"no output layer \(lm_head.weight\), .* gives vectors and predicts no tokens"),
    "more blocks than config.json says": ("gpt2", edit(n_layer=1), "12 arrays are unknown .*and 9 more"),
    "twice": ("gpt2", put("wte.weight", np.zeros((19, 8), np.float32)), "same weight under two names"),
    "tied, but different": ("gpt2", put("lm_head.weight", np.ones((19, 8), np.float32)), "says that they are tied"),
    "always tied, but different": ("bert", put("cls.predictions.decoder.bias", np.ones(19, np.float32)),
                                   "differs from cls.predictions.bias, .*; use the config.json and the weights of one"),
    "integers": ("gpt2", put("transformer.wpe.weight", np.ones((8, 8), np.int8)), "dtype I8; quantized"),
    "nan": ("gpt2", spoil(np.nan), r"wpe.weight holds NaN or infinite values \(1 of 64\)"),
    "infinite": ("gpt2", spoil(-np.inf), r"values \(1 of 64\)"),
    "a pointer of Git LFS": ("gpt2", instead("model.safetensors", b"version https://git-lfs.github.com/spec/v1\noid"),
                             "only a pointer to the weights, which `git lfs pull` downloads"),
    "truncated": ("gpt2", truncated, "need .* bytes, but the file has"),
    "no config.json": ("gpt2", lambda folder: (folder / "config.json").unlink(), "has no config.json"),
    "an archive": ("gpt2", lambda folder: (folder / "config.json").rename(folder / "x.zip"), "; extract x.zip first"),
    "family of another type": ("gpt2", edit(model_type=["gpt2"]), r"model_type \['gpt2'\]"),
    "head of another type": ("gpt2", edit(architectures=3), "gives architectures = 3, wanted a list of texts;"),
    "config.json damaged": ("gpt2", lambda folder: (folder / "config.json").write_text("{,"), "cannot read .*config"),
    "config.json a list": ("gpt2", lambda folder: (folder / "config.json").write_text("[]"), "not hold a JSON object"),
    "a pickle": ("gpt2", instead("pytorch_model.bin"), "pytorch_model.bin is a pickle, .* stays closed"),
    "tensorflow": ("gpt2", instead("tf_model.h5"), "tf_model.h5 has the format of TensorFlow"),
    "no weights": ("gpt2", lambda folder: (folder / "model.safetensors").unlink(), "has no model.safetensors; copy"),
    "a shard lost": ("gpt2", lost_shard, "lists 2 files, but the folder lacks model-00002"),
    "an array lost": ("gpt2", lambda folder: shards(folder, ["transformer.wpe.weight"]),
                      "lists transformer.wpe.weight .* does not have it"),
    "a shard elsewhere": ("gpt2", lambda folder: shards(folder, moved={"x": "../model.safetensors"}),
                          "not a file in the folder itself"),
}


def sentences(modules, **files):
    """The small BERT as a folder of sentence-transformers."""
    def change(folder):
        arrays = dict(TensorFile(folder / "model.safetensors"))
        write_safetensors(folder / "model.safetensors",
                          {name: array for name, array in arrays.items() if "cls" not in name})
        edit(architectures=["BertModel"])(folder)
        (folder / "modules.json").write_text(modules if isinstance(modules, str) else json.dumps(
            [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in modules]))
        (folder / "1_Pooling").mkdir()
        for name, content in files.items():
            (folder / "1_Pooling" / f"{name}.json").write_text(json.dumps(content))
    return change


CASES |= {
    "modules": ("bert", sentences([("Transformer", ""), ("Dense", "2_Dense")]), "lists a module 'Dense'; this package"),
    "modules damaged": ("bert", sentences("{]"), "modules.json is missing or damaged"),
    "modules of another type": ("bert", sentences("[1]"), "is not the list of modules"),
    "no pooling": ("bert", sentences([("Pooling", "1_Pooling")]), "1_Pooling/config.json is missing or damaged"),
    "pooling": ("bert", sentences([("Pooling", "1_Pooling")], config={"pooling_mode_max_tokens": True}),
                "1_Pooling/config.json asks for the pooling max_tokens; "),
    "two poolings": ("bert", sentences([("Pooling", "1_Pooling")], config={
        "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}), "asks for the pooling mean_tokens, cls_token; "),
    "pooling of another type": ("bert", sentences([("Pooling", "1_Pooling")], config=[]),
                                "1_Pooling/config.json does not hold a JSON object"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_that_does_not_fit(case, tmp_path):
    family, change, reason = CASES[case]
    folder = tmp_path / "checkpoint"
    shutil.copytree(SMALL / family, folder)
    change(folder)
    with pytest.raises(ValueError, match=reason) as error:
        load_pretrained(folder)
    assert "\n" not in str(error.value) and "; " in str(error.value)


def test_no_family_is_both_built_and_called_unsupported():
    assert not OF_FAMILIES.keys() & FAMILIES.keys()
    assert {option for family in FAMILIES.values() for option in family.fixed} == OF_FIXED.keys()


def test_nothing_that_a_family_here_has_is_named_as_what_another_one_lacks():
    assert BUILT <= {*OF_OPTIONS.values(), *OF_ARRAYS.values()}
    for family in SIZES:
        config = json.loads((SMALL / family / "config.json").read_text()) | {"model_type": "x"}
        assert components(config, TensorFile(SMALL / family / "model.safetensors")) == "", family


def test_what_is_not_a_folder(tmp_path):
    with pytest.raises(ValueError, match="there is no such folder"):
        load_pretrained(tmp_path / "nothing")
    with pytest.raises(ValueError, match="it is a file"):
        load_pretrained(SMALL / "gpt2" / "model.safetensors")
    with pytest.raises(ValueError, match="dtype = 'float16'"):
        load_pretrained(SMALL / "gpt2", np.float16)


def test_shards_and_a_pickle_beside_are_fine(tmp_path):
    shutil.copytree(SMALL / "gpt2", tmp_path / "x")
    shards(tmp_path / "x")
    (tmp_path / "x" / "pytorch_model.bin").write_bytes(b"never opened")
    found = load_pretrained(tmp_path / "x").state_dict()
    for name, array in load_pretrained(SMALL / "gpt2").state_dict().items():
        np.testing.assert_array_equal(found[name], array)


def test_no_memory_is_said_before_a_weight_is_read(tmp_path, monkeypatch):
    shutil.copytree(SMALL / "llama", tmp_path / "x")
    edit(vocab_size=100_000, hidden_size=4_000, head_dim=1_000)(tmp_path / "x")
    file = TensorFile(tmp_path / "x" / "model.safetensors")
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name in file:
        shape = [{8: 4_000, 24: 4_000, 12: 12, 19: 100_000}[length] for length in file.entries[name].shape]
        if "k_proj" in name or "v_proj" in name:
            shape = [2_000, 4_000]
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with open(tmp_path / "x" / "model.safetensors", "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        os.truncate(out.fileno(), 8 + len(text) + end)                  # almost 2 GB that take no space
    monkeypatch.setattr(load, "available_memory", lambda: 10 ** 9)
    monkeypatch.setattr(TensorFile, "__getitem__", None)
    with pytest.raises(ValueError, match=r"896,308,000 .*need 5.2 GB of memory at 32 bits each, but 1.0 GB are"):
        load_pretrained(tmp_path / "x")


def test_a_window_hides_far_tokens_and_limits_no_length(tmp_path):
    """The first token reaches the last output of two blocks with windows of 3 tokens over at most 4 others."""
    shutil.copytree(SMALL / "llama", tmp_path / "x")
    plain = load_pretrained(tmp_path / "x", np.float64)
    edit(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=3)(tmp_path / "x")
    _, options = class_and_options(tmp_path / "x")
    assert (options["max_len"], options["windows"]) == (8, [3, 3])
    model = load_pretrained(tmp_path / "x", np.float64)
    ids = np.array([3, 7, 4, 9, 5, 8, 6])
    other = np.array([2, 7, 4, 9, 5, 8, 6])
    reached = [int(t) for t in np.flatnonzero(abs(model(ids) - model(other)).max(-1))]
    assert reached == [0, 1, 2, 3, 4] and np.all(plain(ids)[5:] != plain(other)[5:])
    np.testing.assert_allclose(model(ids)[:3], plain(ids)[:3], rtol=0, atol=1e-12)
    cache = nt.KeyValueCache()
    parts = [model(ids[t:t + 1], cache=cache) for t in range(7)]
    np.testing.assert_allclose(np.concatenate(parts), model(ids), rtol=0, atol=1e-12)
    for window in (None, 8):
        edit(sliding_window=window)(tmp_path / "x")
        np.testing.assert_array_equal(load_pretrained(tmp_path / "x", np.float64)(ids), plain(ids))


def test_rotary_frequencies_of_llama3():
    """Against the definition in a loop over wavelengths."""
    from numpy_transformer.pretrained.rotary_settings import frequencies, rope_parameters

    theta = [500.0 ** (-2 * i / 16) for i in range(8)]
    expected = []
    for value in theta:
        wavelength = 2 * np.pi / value
        if wavelength > 40 / 1.0:
            expected.append(value / 8)
        elif wavelength < 40 / 4.0:
            expected.append(value)
        else:
            smooth = (40 / wavelength - 1) / (4 - 1)
            expected.append((1 - smooth) * value / 8 + smooth * value)
    assert len({round(found / value, 6) for found, value in zip(expected, theta)}) > 2      # all three cases
    scaling = {"rope_type": "llama3", "rope_theta": 500.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 40, "factor": 8.0}
    np.testing.assert_allclose(frequencies(16, rope_parameters({"rope_parameters": scaling}))[0], expected, rtol=1e-14)
    linear = rope_parameters({"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0}})
    np.testing.assert_allclose(frequencies(16, linear)[0], np.array(theta) / 4, rtol=1e-14)
    assert frequencies(16, rope_parameters({"rope_theta": 500.0})) == (None, 1.0)


@pytest.mark.parametrize("truncate", [True, False])
def test_rotary_frequencies_of_yarn(truncate):
    """Against the definition of the paper in a loop: a wave that turns more than 3 times within 40 tokens stays, one that turns
    less than 0.4 times is divided by the factor.
    """
    from numpy_transformer.pretrained.rotary_settings import frequencies, rope_parameters

    width, base, length, factor = 24, 500.0, 40, 5.0
    expected = []
    ends = [width * np.log(length / (2 * np.pi * turns)) / (2 * np.log(base)) for turns in (3.0, 0.4)]
    if truncate:
        ends = [np.floor(ends[0]), np.ceil(ends[1])]
    for i in range(width // 2):
        theta = base ** (-2 * i / width)
        kept = min(max((ends[1] - i) / (ends[1] - ends[0]), 0), 1)
        expected.append(kept * theta + (1 - kept) * theta / factor)
    assert 0 < ends[0] < ends[1] < width / 2
    scaling = {"rope_type": "yarn", "rope_theta": base, "factor": factor, "original_max_position_embeddings": length,
               "beta_fast": 3.0, "beta_slow": 0.4, "truncate": truncate}
    found, scale = frequencies(width, rope_parameters({"rope_parameters": scaling}))
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert scale == pytest.approx(0.1 * np.log(5) + 1, rel=1e-15)
    for more, wanted in (({"attention_factor": 1.25}, 1.25), ({"factor": 0.5}, 1.0),
                         ({"mscale": 0.5, "mscale_all_dim": 2.0}, (0.05 * np.log(5) + 1) / (0.2 * np.log(5) + 1))):
        assert frequencies(width, rope_parameters({"rope_parameters": scaling | more}))[1] == pytest.approx(wanted, rel=1e-15)
