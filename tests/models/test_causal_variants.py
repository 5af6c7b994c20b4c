"""GPT-2, LLaMA, Mistral and Qwen2 of transformers, with random weights in float64, equal a CausalLanguageModel.

Names and layouts are converted here by rules of this file alone: the same ones for weights and for gradients.
"""

import math
import re

import numpy as np
import pytest
from helpers import composed

import numpy_transformer as nt
from numpy_transformer.pretrained import rotary_settings

pytestmark = pytest.mark.slow                   # transformers takes seconds to import

V, D, H, G, L, F, D_HEAD, MAX_LEN = 31, 24, 4, 2, 2, 20, 10, 40
LLAMA3 = dict(rope_type="llama3", rope_theta=50.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
SIZES = dict(vocab_size=V, hidden_size=D, num_attention_heads=H, num_key_value_heads=G, num_hidden_layers=L,
             intermediate_size=F, max_position_embeddings=MAX_LEN, rms_norm_eps=1e-2, eos_token_id=None,
             bos_token_id=None, pad_token_id=None, attn_implementation="eager")
GPT2 = dict(vocab_size=V, n_embd=D, n_head=H, n_layer=L, n_inner=F, n_positions=MAX_LEN, layer_norm_epsilon=1e-2,
            activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, eos_token_id=None,
            bos_token_id=None, attn_implementation="eager")


def plain_rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


VARIANTS = {                                    # class, config
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt2, relu, untied": ("GPT2LMHeadModel", {**GPT2, "activation_function": "relu", "tie_word_embeddings": False}),
    "llama 2": ("LlamaForCausalLM", {**SIZES, "num_key_value_heads": H, "rope_parameters": plain_rope(10000.0)}),
    "llama 3": ("LlamaForCausalLM", {**SIZES, "head_dim": D_HEAD, "rope_parameters": LLAMA3,
                                     "tie_word_embeddings": True}),
    "llama, linear, biases, gelu_tanh": ("LlamaForCausalLM", {
        **SIZES, "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu_pytorch_tanh",
        "rope_parameters": {"rope_type": "linear", "rope_theta": 50.0, "factor": 3.0}}),
    "mistral": ("MistralForCausalLM", {**SIZES, "head_dim": D_HEAD, "sliding_window": None,
                                       "rope_parameters": plain_rope(500.0)}),
    "qwen2": ("Qwen2ForCausalLM", {**SIZES, "rope_parameters": plain_rope(50.0)})}
CONVENTIONS = [(name, interleaved) for name in VARIANTS
               for interleaved in ([True] if name.startswith("gpt2") else [True, False])]
PADDING = {"none": np.ones((3, 9), bool), "left": np.arange(9) >= np.array([[0], [3], [7]]),
           "right": np.arange(9) < np.array([[9], [6], [2]])}

NAMES = {"wte": "embedding", "wpe": "positions", "embed_tokens": "embedding", "ln_f": "decoder.norm",
         "norm": "decoder.norm", "lm_head": "output", "ln_1": "norm1", "ln_2": "norm2", "input_layernorm": "norm1",
         "post_attention_layernorm": "norm2", "q_proj": "attention.query", "k_proj": "attention.key",
         "v_proj": "attention.value", "o_proj": "attention.output", "attn.c_proj": "attention.output",
         "gate_proj": "feed_forward.gate", "up_proj": "feed_forward.up", "down_proj": "feed_forward.down",
         "c_fc": "feed_forward.up", "mlp.c_proj": "feed_forward.down"}


def frequencies(d_head, rope):
    """θ_i in plain loops; for llama3 in the three cases of the code that was published with LLaMA 3.1."""
    found = []
    for i in range(d_head // 2):
        theta = rope["rope_theta"] ** (-2 * i / d_head)
        if rope["rope_type"] == "linear":
            theta = theta / rope["factor"]
        if rope["rope_type"] == "llama3":
            turns = rope["original_max_position_embeddings"] * theta / (2 * math.pi)    # in the original context
            if turns < rope["low_freq_factor"]:
                theta = theta / rope["factor"]
            elif turns <= rope["high_freq_factor"]:
                share = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
                theta = (1 - share) * theta / rope["factor"] + share * theta
        found.append(theta)
    return found


def as_ours(arrays, d_head, interleaved):
    """Weights or gradients of transformers, under our names and in our layout."""
    ours = {}
    for name, x in arrays.items():
        layer, part, kind = re.fullmatch(r"(?:model|transformer)?\.?(?:(?:layers|h)\.(\d+)\.)?(.+)\.(weight|bias)",
                                         name).groups()
        block = "" if layer is None else f"decoder.blocks.{layer}."
        if part == "attn.c_attn":
            for side, third in zip(("query", "key", "value"), np.split(x, 3, -1)):
                ours[f"{block}attention.{side}.{kind}"] = third
            continue
        own = next(NAMES[end] for end in (part, part.split(".")[-1]) if end in NAMES)
        if "norm" in own:
            kind = {"weight": "gamma", "bias": "beta"}[kind]
        elif part.endswith(("proj", "head")) and kind == "weight" and ".c_" not in part:
            x = x.T                             # Linear stores (out, in), GPT-2's Conv1D (in, out)
        if interleaved and part.endswith(("q_proj", "k_proj")):
            x = x.reshape(*x.shape[:-1], -1, 2, d_head // 2).swapaxes(-1, -2).reshape(x.shape)
        ours[f"{block}{own}.{kind}"] = x
    return ours


class Pair:
    """A model of transformers with random weights, and ours with the same."""

    def __init__(self, name, interleaved, **options):
        transformers, self.torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
        self.torch.set_num_threads(1)
        kind, config = VARIANTS[name]
        from helpers.hugging_face import double_precision
        self.double_precision = double_precision
        kind = getattr(transformers, kind)
        config = kind.config_class(**config)
        with double_precision():                # so that the rotary frequencies are computed in float64
            self.theirs = kind(config).double().eval()
        rng = np.random.default_rng(len(name))
        for parameter_name, parameter in self.theirs.named_parameters():
            scale = 0.3 if parameter_name.endswith("bias") else 1
            if parameter.ndim > 1:
                scale = 2 / math.sqrt(D)        # so large that attention is far from uniform
            parameter.data = self.torch.tensor(scale * rng.standard_normal(tuple(parameter.shape)))
        self.d_head, self.interleaved = getattr(config, "head_dim", None) or D // H, interleaved
        common = dict(max_len=MAX_LEN, eps=1e-2, tie_weights=config.tie_word_embeddings, **options)
        if config.model_type == "gpt2":
            self.theta = None
            common |= dict(activation={"gelu_new": "gelu_tanh"}.get(config.activation_function, "relu"))
        else:
            self.theta = frequencies(self.d_head, config.rope_parameters)
            if config.rope_parameters["rope_type"] == "default":
                common["rope_base"] = config.rope_parameters["rope_theta"]
            else:
                common["rope_frequencies"] = self.theta
            bias = getattr(config, "attention_bias", False)
            common |= dict(
                norm_layer="rms", positions="rotary", num_kv_heads=config.num_key_value_heads, d_head=self.d_head,
                activation={"silu": "swiglu", "gelu_pytorch_tanh": "geglu_tanh"}[config.hidden_act], bias=bias,
                qkv_bias=config.model_type == "qwen2", rope_interleaved=interleaved)
        self.ours = composed.language_model(V, D, H, L, F, **common).astype(np.float64)
        self.ours.load_state_dict(self.converted({name: p.detach() for name, p in self.theirs.named_parameters()}))

    def converted(self, tensors):
        return as_ours({name: tensor.numpy() for name, tensor in tensors.items()}, self.d_head, self.interleaved)

    def logits_and_gradients(self, ids, real, targets):
        """Logits and the gradient of every parameter according to transformers, under our names."""
        torch = self.torch
        positions = np.maximum(np.cumsum(real, -1) - 1, 0)
        with self.double_precision():
            logits = self.theirs(torch.tensor(ids), attention_mask=torch.tensor(real.astype(int)),
                                 position_ids=torch.tensor(positions), use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten(), ignore_index=-1)
        loss.backward()
        return logits.detach().numpy(), self.converted({name: p.grad for name, p in self.theirs.named_parameters()})


def batch(padding):
    rng = np.random.default_rng(7)
    real = PADDING[padding]
    ids = rng.integers(0, V, real.shape)
    targets = np.where(real, rng.integers(0, V, real.shape), -1)
    return ids, real, targets


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("name, interleaved", CONVENTIONS)
def test_logits_and_every_gradient(name, interleaved, padding):
    pair = Pair(name, interleaved)
    check_logits_and_gradients(pair, *batch(padding))


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("name", ["gpt2", "llama 3", "qwen2"])
def test_the_same_with_flash_attention(name, padding):
    check_logits_and_gradients(Pair(name, False, attention="flash"), *batch(padding))


def check_logits_and_gradients(pair, ids, real, targets):
    logits, gradients = pair.logits_and_gradients(ids, real, targets)
    criterion = nt.CrossEntropyLoss(ignore_id=-1)
    found = pair.ours(ids, real)
    criterion(found, targets)
    pair.ours.backward(criterion.backward())
    assert relative_error(found[real], logits[real]) <= 1e-9
    parameters = dict(pair.ours.named_parameters())
    assert parameters.keys() == gradients.keys()
    largest = max(map(np.linalg.norm, gradients.values()))
    for name, parameter in parameters.items():
        if name.endswith("key.bias") and pair.theta is None:            # softmax does not see it: zero up to rounding
            assert np.abs(parameter.grad).max() <= 1e-12 * largest
        else:
            assert relative_error(parameter.grad, gradients[name]) <= 1e-9, name


def relative_error(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("name, interleaved", CONVENTIONS)
def test_greedy_text_with_and_without_a_cache(name, interleaved):
    """Prompts of different lengths, padded on the left, continued by 12 tokens."""
    pair = Pair(name, interleaved)
    rng = np.random.default_rng(5)
    prompts = [rng.integers(1, V, length).tolist() for length in (7, 2, 4)]
    texts = [nt.generate(pair.ours.eval(), prompts, 12, temperature=0, cached=cached) for cached in (True, False)]
    ids = np.array([[0] * (7 - len(prompt)) + prompt for prompt in prompts])
    mask = np.array([[0] * (7 - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    with pair.double_precision():
        theirs = pair.theirs.generate(pair.torch.tensor(ids), attention_mask=pair.torch.tensor(mask),
                                      max_new_tokens=12, do_sample=False, pad_token_id=0)
    assert texts[0] == texts[1] == [row[7 - len(prompt):] for row, prompt in zip(theirs.tolist(), prompts)]
    assert len({token for text, prompt in zip(texts[0], prompts) for token in text[len(prompt):]}) > 4


@pytest.mark.parametrize("name", [name for name in VARIANTS if not name.startswith("gpt2")])
def test_frequencies_by_plain_loops_are_those_of_transformers(name):
    pair = Pair(name, False)
    np.testing.assert_allclose(pair.theirs.model.rotary_emb.inv_freq.numpy(), pair.theta, rtol=1e-13)


@pytest.mark.parametrize("d_head, rope", [
    (D_HEAD, LLAMA3),
    (64, {**LLAMA3, "rope_theta": 500000.0, "factor": 32.0, "original_max_position_embeddings": 8192}),
    (128, {**LLAMA3, "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 8192}),
    (6, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5})])
def test_frequencies_that_are_read_from_a_config(d_head, rope):
    found, factor = rotary_settings.frequencies(d_head, rope)
    assert factor == 1
    np.testing.assert_allclose(found, frequencies(d_head, rope), rtol=1e-13)
    ratios = np.divide(found, frequencies(d_head, plain_rope(rope["rope_theta"])))
    if rope["rope_type"] == "llama3":           # one pair at least in each of the three cases
        between = (ratios > 1 / rope["factor"]) & (ratios < 1)
        assert ratios[0] == 1 and between[1:-1].any() and ratios[-1] == pytest.approx(1 / rope["factor"])
