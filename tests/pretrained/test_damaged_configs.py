"""An option of config.json that has the wrong type or range is refused by its name, its value and what is wanted."""

import json
import shutil

import pytest
from helpers.small_checkpoints import SIZES, SMALL

from numpy_transformer.pretrained import load_pretrained
from numpy_transformer.pretrained.config import KINDS, CheckedConfig
from numpy_transformer.pretrained.registry import FAMILIES, describe_config

WHOLE, ABOVE_0 = "wanted a whole number of at least 1", "wanted a number above 0"
OF_TYPES = "wanted full_attention or sliding_attention, which this package supports, for each of the"
LLAMA3 = {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0,
          "original_max_position_embeddings": 8}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
CASES = [                                       # family, changes of config.json (...: left out), a part of the sentence
    ("gpt_oss", {"swiglu_limit": "x"}, f"swiglu_limit = 'x', {ABOVE_0}"),
    ("gpt_oss", {"swiglu_limit": -1}, f"swiglu_limit = -1, {ABOVE_0}"),
    ("gpt_oss", {"num_local_experts": 0}, f"num_local_experts = 0, {WHOLE}"),
    ("gpt_oss", {"num_local_experts": "4"}, f"num_local_experts = '4', {WHOLE}"),
    ("gpt_oss", {"num_local_experts": ...}, "many more weights than the 53 arrays in the file; use settings and weights that "
                                            "belong together) (config.json gives no num_experts or num_local_experts)"),
    ("gpt_oss", {"rope_parameters": {"rope_type": "yarn", "factor": 0}}, f"factor = 0, {ABOVE_0}"),
    ("gemma3", {"rope_parameters": "default"}, "rope_parameters = 'default', wanted an object"),
    ("gemma3", {"rope_parameters": {"full_attention": {}}}, "config.json has no 'rope_parameters.sliding_attention', which"),
    ("gemma3", {"rope_parameters": {"full_attention": 3}}, "rope_parameters.full_attention = 3, wanted an object"),
    ("gemma3", {"query_pre_attn_scalar": 0.0}, f"query_pre_attn_scalar = 0.0, {ABOVE_0}"),
    ("gemma3", {"sliding_window": "3"}, f"sliding_window = '3', {WHOLE}"),
    ("gemma3", {"layer_types": ..., "sliding_window_pattern": 0}, f"sliding_window_pattern = 0, {WHOLE}"),
    ("gemma2", {"query_pre_attn_scalar": "5"}, f"query_pre_attn_scalar = '5', {ABOVE_0}"),
    ("gemma2", {"sliding_window": [3]}, f"sliding_window = [3], {WHOLE}"),
    ("gemma2", {"hidden_activation": None}, "hidden_activation = None, wanted a text"),
    ("gemma2", {"final_logit_softcapping": 0}, f"final_logit_softcapping = 0, {ABOVE_0}"),
    ("qwen3", {"layer_types": "full_attention"}, "layer_types = 'full_attention', wanted a list of texts"),
    ("qwen3", {"layer_types": ["full_attention"]}, f"layer_types = ['full_attention'], {OF_TYPES} 2 blocks"),
    ("qwen3", {"layer_types": ["full_attention", "x"]}, f"layer_types = ['full_attention', 'x'], {OF_TYPES} 2 blocks"),
    ("qwen3", {"head_dim": 0}, f"head_dim = 0, {WHOLE}"),
    ("qwen3", {"head_dim": "4"}, f"head_dim = '4', {WHOLE}"),
    ("qwen3", {"head_dim": True}, f"head_dim = True, {WHOLE}"),
    ("qwen3", {"head_dim": ...}, "(512, 8), which config.json implies (config.json gives no head_dim); use"),
    ("qwen3", {"head_dim": None}, "(8, 8), which config.json implies (config.json gives no head_dim); use"),
    ("qwen3", {"head_dim": ..., "vocab_size": 20}, "(20, 8), which config.json implies; use"),
    ("qwen3", {"num_key_value_heads": 0}, f"num_key_value_heads = 0, {WHOLE}"),
    ("llama", {"num_key_value_heads": ..., "head_dim": ...}, "(config.json gives no head_dim or num_key_value_heads); use"),
    ("llama", {"rope_theta": "x", "rope_parameters": ...}, "rope_theta = 'x', wanted a number above 1"),
    ("llama", {"rope_parameters": {"rope_theta": "x"}}, "rope_theta = 'x', wanted a number above 1"),
    ("llama", {"rope_parameters": {"rope_type": ["linear"]}}, "rope_type = ['linear'], wanted a text"),
    ("llama", {"rope_parameters": LLAMA3}, "low_freq_factor = 4.0 and high_freq_factor = 1.0, wanted high_freq_factor"),
    ("llama", {"rope_parameters": YARN | {"beta_fast": 0.5}}, "beta_slow = 1 and beta_fast = 0.5, wanted beta_fast above"),
    ("llama", {"rope_parameters": YARN | {"beta_slow": 0}}, f"beta_slow = 0, {ABOVE_0}"),
    ("llama", {"tie_word_embeddings": "yes"}, "tie_word_embeddings = 'yes', wanted true or false"),
    ("llama", {"num_hidden_layers": 10 ** 9}, "num_hidden_layers = 1000000000, wanted a whole number from 1 to 10,000"),
    ("gpt2", {"n_inner": 0}, f"n_inner = 0, {WHOLE}"),
    ("gpt2", {"resid_pdrop": 1}, "resid_pdrop = 1, wanted a number from 0 to below 1"),
    ("smollm3", {"layer_types": ["full_attention"] * 4}, f"{OF_TYPES} 3 blocks"),
    ("smollm3", {"layer_types": 3}, "layer_types = 3, wanted a list of texts"),
    ("smollm3", {"no_rope_layers": [2, 3, 4]}, "no_rope_layers = [2, 3, 4], wanted a list of 0 and 1, one for each block"),
    ("smollm3", {"no_rope_layers": [1, 0]}, "no_rope_layers = [1, 0], wanted a list of 0 and 1, one for each of the 3 blocks"),
    ("smollm3", {"no_rope_layers": []}, "no_rope_layers = [], wanted a list of 0 and 1, one for each of the 3 blocks"),
    ("smollm3", {"no_rope_layers": None, "no_rope_layer_interval": 0}, f"no_rope_layer_interval = 0, {WHOLE}"),
    ("modernbert", {"local_attention": 0}, f"local_attention = 0, {WHOLE}"),
    ("modernbert", {"local_attention": 3.5}, f"local_attention = 3.5, {WHOLE}"),
    ("modernbert", {"rope_parameters": {"rope_theta": 10.0}}, "config.json has no 'rope_parameters.full_attention', which a"),
    ("gpt_neox", {"use_parallel_residual": "maybe"}, "use_parallel_residual = 'maybe', wanted true or false"),
    ("gpt_neox", {"rope_parameters": {"partial_rotary_factor": "half"}},
     "partial_rotary_factor = 'half', wanted a number above 0 and up to 1"),
    ("mixtral", {"num_local_experts": 0}, f"num_local_experts = 0, {WHOLE}"),
    ("mixtral", {"num_local_experts": ...}, "and 21 more) (config.json gives no num_experts or num_local_experts); use"),
    ("mixtral", {"num_experts_per_tok": 0}, f"num_experts_per_tok = 0, {WHOLE}"),
    ("mixtral", {"sliding_window": "4"}, f"sliding_window = '4', {WHOLE}"),
    ("phi3", {"sliding_window": "4"}, f"sliding_window = '4', {WHOLE}"),
    ("qwen3_moe", {"num_local_experts": ..., "num_experts": 0}, f"num_experts = 0, {WHOLE}"),
    ("qwen3_moe", {"decoder_sparse_step": 0}, f"decoder_sparse_step = 0, {WHOLE}"),
    ("qwen3_moe", {"mlp_only_layers": [0.5]}, "mlp_only_layers = [0.5], wanted a list of numbers of blocks"),
    ("deepseek_v3", {"q_lora_rank": 0}, f"q_lora_rank = 0, {WHOLE}"),
    ("deepseek_v3", {"routed_scaling_factor": "2"}, f"routed_scaling_factor = '2', {ABOVE_0}"),
    ("bert", {"pad_token_id": "0"}, "pad_token_id = '0', wanted a whole number of at least 0"),
    ("t5", {"num_decoder_layers": 0}, "num_decoder_layers = 0, wanted a whole number from 1 to 10,000"),
    ("t5", {"feed_forward_proj": 3}, "feed_forward_proj = 3, wanted a text"),
    ("bart", {"decoder_attention_heads": "2"}, f"decoder_attention_heads = '2', {WHOLE}"),
    ("vit", {"patch_size": [2, 0]}, "patch_size = [2, 0], wanted a whole number of at least 1, or two of them"),
]


def config_of(family, **changes):
    config = json.loads((SMALL / family / "config.json").read_text()) | changes
    return {name: value for name, value in config.items() if value is not ...}


@pytest.mark.parametrize("family, changes, sentence", CASES, ids=[f"{family} {changes}"[:70] for family, changes, _ in CASES])
def test_a_damaged_option_is_named(family, changes, sentence, tmp_path):
    shutil.copytree(SMALL / family, tmp_path / "x")
    (tmp_path / "x" / "config.json").write_text(json.dumps(config_of(family, **changes)))
    with pytest.raises(ValueError) as error:
        load_pretrained(tmp_path / "x")
    assert sentence in str(error.value) and "; " in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("family", SIZES)
def test_each_option_that_a_family_reads_has_a_kind(family, monkeypatch):
    """Without one, it would be read unchecked: a new option is entered in KINDS."""
    asked = set()
    plain = CheckedConfig.__getitem__
    monkeypatch.setattr(CheckedConfig, "__getitem__", lambda self, name: asked.add(name) or plain(self, name))
    describe_config(config_of(family), ())
    assert len(asked) > 10 and not asked - KINDS.keys()


@pytest.mark.parametrize("family", SIZES)
@pytest.mark.parametrize("wrong", ["x", -1, 0, [], {}, 2.5, None, True, [["x"]]], ids=repr)
def test_no_wrong_type_reaches_arithmetic(family, wrong):
    """Each option of a family in turn: it is read, or refused by its own name."""
    config = config_of(family)
    for name in config.keys() & KINDS.keys() - FAMILIES[config["model_type"]].fixed.keys():
        try:
            describe_config(config | {name: wrong}, ())
        except ValueError as error:
            said = str(error)
            assert f"{name} = {wrong!r}, wanted " in said or f"the activation {wrong!r}; this package supports" in said
