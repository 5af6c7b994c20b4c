"""Which value of config.json becomes which argument of our class, for each family: all of them differ from the defaults."""

import pytest

from numpy_transformer.pretrained.registry import describe_config

ENCODER = {"positions": "learned", "norm": "post", "scale_embedding": False, "embedding_norm": True, "ff_dropout": 0.0}
BERT = {"vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 20,
        "hidden_act": "relu", "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3, "type_vocab_size": 4,
        "max_position_embeddings": 17, "layer_norm_eps": 0.01, "pad_token_id": 5}
DISTILBERT = {"vocab_size": 31, "dim": 12, "n_layers": 3, "n_heads": 2, "hidden_dim": 20, "activation": "relu",
              "dropout": 0.2, "attention_dropout": 0.3, "max_position_embeddings": 17, "pad_token_id": 5}
BERT_OPTIONS = {"vocab_size": 31, "d_model": 12, "num_layers": 3, "num_heads": 2, "d_ff": 20, "activation": "relu",
                "dropout": 0.2, "num_segments": 4, "max_len": 17, "eps": 0.01, "pad_id": 5, **ENCODER}
LLAMA = {"vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 6,
         "num_key_value_heads": 2, "intermediate_size": 20, "hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 0.01,
         "max_position_embeddings": 17, "tie_word_embeddings": True, "rope_theta": 70.0}
LLAMA_OPTIONS = {"vocab_size": 31, "d_model": 12, "num_layers": 3, "num_heads": 4, "d_head": 6, "num_kv_heads": 2,
                 "d_ff": 20, "activation": "geglu_tanh", "eps": 0.01, "max_len": 17, "tie_weights": True,
                 "norm_layer": "rms", "bias": False, "qkv_bias": False, "positions": "rotary", "rope_base": 70.0,
                 "rope_interleaved": False, "rope_frequencies": None}
T5 = {"vocab_size": 31, "d_model": 16, "d_kv": 5, "d_ff": 20, "num_layers": 3, "num_decoder_layers": 4, "num_heads": 2,
      "feed_forward_proj": "gated-silu", "layer_norm_epsilon": 0.01, "dropout_rate": 0.2, "pad_token_id": 5,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9, "tie_word_embeddings": True}
T5_OPTIONS = {"src_vocab": 31, "tgt_vocab": 31, "d_model": 16, "d_head": 5, "d_ff": 20, "num_layers": 3,
              "num_decoder_layers": 4, "num_heads": 2, "activation": "swiglu", "norm_layer": "rms", "eps": 0.01,
              "bias": False, "dropout": 0.2, "pad_id": 5, "mask_target": False, "positions": "relative",
              "num_buckets": 8, "max_distance": 9, "scale_embedding": False, "tie_weights": True, "output_factor": 0.25}
CASES = {
    "GPT2LMHeadModel": ("gpt2", {
        "vocab_size": 31, "n_positions": 17, "n_embd": 12, "n_layer": 3, "n_head": 2, "n_inner": 20,
        "activation_function": "relu", "layer_norm_epsilon": 0.01, "resid_pdrop": 0.2, "embd_pdrop": 0.3,
        "attn_pdrop": 0.4, "tie_word_embeddings": False},
        {"vocab_size": 31, "max_len": 17, "d_model": 12, "num_layers": 3, "num_heads": 2, "d_ff": 20,
         "activation": "relu", "eps": 0.01, "dropout": 0.2, "ff_dropout": 0.0, "tie_weights": False}),
    "LlamaForCausalLM": ("llama", LLAMA, LLAMA_OPTIONS),
    "MistralForCausalLM": ("mistral", LLAMA | {"sliding_window": 9}, LLAMA_OPTIONS | {"windows": [9, 9, 9]}),
    "Qwen2ForCausalLM": ("qwen2", LLAMA | {"sliding_window": 9}, LLAMA_OPTIONS | {"qkv_bias": True}),
    "Qwen2ForCausalLM, windows": ("qwen2", LLAMA | {
        "sliding_window": 9, "use_sliding_window": True, "max_window_layers": 1},
        LLAMA_OPTIONS | {"qkv_bias": True, "windows": [None, 9, 9]}),
    "Qwen2ForCausalLM, types of layers": ("qwen2", LLAMA | {
        "sliding_window": 9, "use_sliding_window": True, "max_window_layers": 1,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        LLAMA_OPTIONS | {"qkv_bias": True, "windows": [9, None, 9]}),
    "BertForMaskedLM": ("bert", BERT, BERT_OPTIONS | {"head_activation": "relu"}),
    "BertForSequenceClassification": ("bert", BERT | {"id2label": {"0": "a", "1": "b", "2": "c"}}, BERT_OPTIONS | {
        "num_classes": 3, "hidden": 12, "pool": "first", "head_activation": "tanh"}),
    "RobertaForMaskedLM": ("roberta", BERT, BERT_OPTIONS | {
        "max_len": 11, "first_position": 6, "head_activation": "gelu"}),
    "DistilBertForSequenceClassification": ("distilbert", DISTILBERT | {"num_labels": 7}, BERT_OPTIONS | {
        "num_segments": 0, "eps": 1e-12, "num_classes": 7, "hidden": 12, "pool": "first", "head_activation": "relu"}),
    "DistilBertForTokenClassification": ("distilbert", DISTILBERT, BERT_OPTIONS | {
        "num_segments": 0, "eps": 1e-12, "num_classes": 2}),
    "T5ForConditionalGeneration": ("t5", T5, T5_OPTIONS)}


@pytest.mark.parametrize("architecture", CASES)
def test_the_settings_of_config_json(architecture):
    family, config, expected = CASES[architecture]
    _, options = describe_config({"model_type": family, "architectures": [architecture.split(",")[0]]} | config, ())
    assert options == expected


@pytest.mark.parametrize("scaled, stored, tied, factor", [
    (True, (), True, 0.25), (True, ("lm_head.weight",), True, 0.25), (False, ("lm_head.weight",), "embeddings", 1.0)])
@pytest.mark.parametrize("written", [
    lambda scaled: {"tie_word_embeddings": scaled},
    lambda scaled: {"tie_word_embeddings": True, "scale_decoder_outputs": scaled}], ids=["version 4", "version 5"])
def test_the_output_of_t5_is_scaled_or_untied(written, scaled, stored, tied, factor):
    config = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]} | T5 | written(scaled)
    _, options = describe_config(config, stored)
    assert (options["tie_weights"], options["output_factor"]) == (tied, factor)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", CASES)
def test_values_that_config_json_leaves_out_are_those_of_transformers(architecture):
    transformers = pytest.importorskip("transformers")
    family = CASES[architecture][0]
    named = {"model_type": family, "architectures": [architecture.split(",")[0]]}
    complete = transformers.AutoConfig.for_model(family).to_dict() | named
    expected = describe_config(complete, ())
    left_out = []
    for key in complete.keys() - named - {"num_key_value_heads", "num_decoder_layers"}:     # seen in the shapes
        try:
            found = describe_config({name: value for name, value in complete.items() if name != key}, ())
        except ValueError:                      # a setting that config.json must have
            continue
        assert found == expected, key
        left_out.append(key)
    assert {"hidden_size", "dim", "n_embd", "d_model"}.isdisjoint(left_out) and len(left_out) > 4
