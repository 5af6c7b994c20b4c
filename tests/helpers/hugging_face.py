"""Tiny random models of transformers, their values in float64, and ours beside them.

torch and transformers are imported in the functions: collecting the tests that use them should take no time.
"""

import contextlib
import json
import tempfile
from pathlib import Path

import numpy as np

from numpy_transformer.layers import CrossEntropyLoss
from numpy_transformer.pretrained import load_pretrained, rules, save_pretrained
from numpy_transformer.pretrained.safetensors import TensorFile

TINY = {
    "gpt2": {"vocab_size": 61, "n_positions": 24, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_inner": 40},
    "llama": {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32},
    "bert": {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
             "num_attention_heads": 4, "max_position_embeddings": 20, "type_vocab_size": 3},
    "distilbert": {"vocab_size": 61, "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 4,
                   "max_position_embeddings": 20},
    "t5": {"vocab_size": 61, "d_model": 24, "d_kv": 5, "d_ff": 40, "num_layers": 2, "num_heads": 4,
           "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12},
}
TINY["mistral"] = TINY["qwen2"] = TINY["llama"]
WIDE = TINY["llama"] | {"head_dim": 10}
TINY["qwen3"] = WIDE
TINY["gemma"] = WIDE
TINY["gemma2"] = TINY["gemma3_text"] = WIDE | {"query_pre_attn_scalar": 7, "sliding_window": 4, "num_hidden_layers": 3}
TINY["smollm3"] = TINY["llama"] | {"num_hidden_layers": 5, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TINY["olmo2"] = TINY["llama"] | {"pad_token_id": 0, "eos_token_id": 2}
TINY["phi3"] = TINY["llama"] | {"pad_token_id": 0, "eos_token_id": 2}
TINY["gpt_neox"] = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "max_position_embeddings": 32}
TINY["mixtral"] = TINY["llama"] | {"num_local_experts": 5, "num_experts_per_tok": 3}
TINY["gpt_oss"] = WIDE | {"num_local_experts": 5, "num_experts_per_tok": 3, "intermediate_size": 14, "sliding_window": 4,
                          "swiglu_limit": 2.0}
TINY["qwen3_moe"] = WIDE | {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 14, "num_hidden_layers": 3}
TINY["deepseek_v3"] = {
    "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "moe_intermediate_size": 14, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 14, "kv_lora_rank": 10, "qk_rope_head_dim": 6,
    "qk_nope_head_dim": 5, "v_head_dim": 7, "n_routed_experts": 8, "n_group": 4, "topk_group": 3, "num_experts_per_tok": 5,
    "n_shared_experts": 1, "first_k_dense_replace": 1, "max_position_embeddings": 32, "num_mtp_layers": 0}
TINY["roberta"] = TINY["xlm-roberta"] = TINY["camembert"] = TINY["bert"]
TINY["mt5"] = TINY["t5"]
TINY["modernbert"] = {
    "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 20, "local_attention": 6, "global_attn_every_n_layers": 2, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
TINY["bart"] = {
    "vocab_size": 61, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 20}
TINY["marian"] = TINY["bart"] | {"pad_token_id": 60, "decoder_start_token_id": 60, "activation_function": "swish"}
TINY["vit"] = {"image_size": 12, "patch_size": 4, "num_channels": 3, "hidden_size": 24, "num_attention_heads": 4,
               "intermediate_size": 40, "num_hidden_layers": 2, "num_labels": 3}


@contextlib.contextmanager
def double_precision():
    """Inside it transformers computes in float64 where its code asks for float32: norms, softmax, rotary positions."""
    import torch

    with contextlib.ExitStack() as stack:
        for owner, name, value in ((torch, "float32", torch.float64), (torch, "float", torch.float64),
                                   (torch.Tensor, "float", torch.Tensor.double)):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield


def write_tiny(folder, architecture, family, seed=0, **options):
    """Saves a tiny model of transformers with random weights, also in norms and biases. Returns the folder's path."""
    return write_model(folder, architecture, family, TINY[family] | options, seed)


def write_model(folder, architecture, family, sizes, seed=0):
    """Saves a model of these sizes, as write_tiny does."""
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(family, **sizes)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = getattr(transformers, architecture)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:         # not the sinusoids of Marian
                parameter += 0.3 * torch.randn_like(parameter)
        for name, buffer in model.named_buffers():
            if name in model.state_dict():      # biases that training changes in another way than by gradients
                buffer += 0.3 * torch.randn_like(buffer)
    model.save_pretrained(folder)
    return Path(folder)


def gradients_by_name(model):
    """{name in a file: gradient} of all weights that have one; transformers stores some arrays in another form than it
    uses them, so the gradients are put in the place of the weights, and saved.
    """
    import torch

    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.tensor(torch.nan) if weight.grad is None else weight.grad)
        for buffer in filter(torch.is_floating_point, model.buffers()):
            buffer.fill_(torch.nan)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        arrays = dict(TensorFile(Path(folder, "model.safetensors")))
    return {name: array for name, array in arrays.items() if not np.isnan(array).any()}


def edit_config(folder, **changes):
    """Changes values of config.json; ... removes one."""
    path = Path(folder, "config.json")
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}, indent=2) + "\n")


def theirs(folder, architecture):
    """The model of transformers in float64, in eval. Its code still asks for float32: see double_precision."""
    import torch
    import transformers

    model_class = getattr(transformers, architecture)
    model = model_class.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                        experts_implementation="eager")
    for part in model.modules():
        if isinstance(part, torch.nn.Embedding):
            part.padding_idx = None             # it would leave out the gradient of one token
        if hasattr(part, "create_weight"):      # sinusoids, which are kept in float32
            part.weight.data = torch.from_numpy(marian_table(*part.weight.shape))
        if hasattr(part, "rotary_emb"):
            with double_precision():
                part.rotary_emb = type(part.rotary_emb)(model.config)       # its frequencies in float64
    return model.double().eval()                # also what transformers keeps in float32, such as routers


def marian_table(max_len, d_model):
    """The sinusoids of Marian in float64: all sines, then all cosines."""
    angles = np.arange(max_len)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.concatenate([np.sin(angles), np.cos(angles)[:, :d_model // 2]], axis=1)


def compare(folder, architecture, our_inputs, their_inputs, targets, tmp_path):
    """Relative errors of the logits and of every gradient: ({name: error}, our model).

    Targets of -1 are ignored. The gradients are compared under the names of transformers: put into the weights of a
    copy, and saved.
    """
    import torch

    real = targets >= 0
    model = theirs(folder, architecture)
    with double_precision():
        logits = model(**{name: torch.tensor(value) for name, value in their_inputs.items()}).logits
        loss = torch.nn.functional.cross_entropy(logits[torch.tensor(real)], torch.tensor(targets[real]))
        loss.backward()
    ours = load_pretrained(folder, np.float64).eval(remember=True)
    found = ours(*our_inputs[0], **our_inputs[1])
    criterion = CrossEntropyLoss()
    criterion(found[real], targets[real])
    dlogits = np.zeros_like(found)
    dlogits[real] = criterion.backward()
    ours.zero_grad()
    ours.backward(dlogits)
    ours_frozen = {name: parameter.frozen for name, parameter in ours.named_parameters()}
    for parameter in ours.parameters():
        parameter.data = parameter.grad
    ours.origin.unused = {}
    save_pretrained(ours, tmp_path / "gradients")
    gradients = TensorFile(tmp_path / "gradients" / "model.safetensors")
    frozen = {rule.theirs for rule in rules(ours) if any(ours_frozen[name] for name in rule.ours)}
    expected = gradients_by_name(model)
    assert set(gradients) - frozen == set(expected)
    largest = max(abs(array).max() for array in expected.values())
    errors = {name: relative(gradients[name], expected[name], largest) for name in expected}
    return errors | {"logits": relative(found[real], logits[torch.tensor(real)].detach().numpy())}


def relative(found, expected, largest=0):
    """The largest difference, relative to the largest value; values that are zero up to rounding do not count."""
    scale = max(abs(expected).max(), 1e-6 * largest)
    return abs(found - expected).max() / scale
