"""Writes the small checkpoints of tests/pretrained/small, with values that transformers computes in float64.

    PYTHONPATH=.:tests python tests/helpers/small_checkpoints.py [NAME ...]

Each folder has a model of 2,000 to 4,500 random weights and values.npz: the inputs, the logits, and under the names of
transformers the gradients of the mean cross-entropy with the targets (-1: ignored).
"""

import sys
from pathlib import Path

import numpy as np

SMALL = Path(__file__).parents[1] / "pretrained" / "small"
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 2.0,
        "beta_slow": 0.5}
GEMMA = {"vocab_size": 19, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 6,
         "intermediate_size": 12, "max_position_embeddings": 16, "query_pre_attn_scalar": 5, "sliding_window": 3}
SEQUENCES = {"vocab_size": 19, "d_model": 8, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 9,
             "scale_embedding": True}
SIZES = {                                       # name of the folder: (architecture, model_type, options of its config)
    "gpt2": ("GPT2LMHeadModel", "gpt2", {"vocab_size": 19, "n_positions": 8, "n_embd": 8, "n_head": 2, "n_inner": 12,
                                         "n_layer": 2}),
    "llama": ("LlamaForCausalLM", "llama", {
        "vocab_size": 19, "hidden_size": 8, "num_attention_heads": 4, "head_dim": 6, "num_key_value_heads": 2,
        "intermediate_size": 12, "max_position_embeddings": 8, "num_hidden_layers": 2}),
    "bert": ("BertForMaskedLM", "bert", {
        "vocab_size": 19, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12,
        "max_position_embeddings": 8, "type_vocab_size": 2, "num_hidden_layers": 2}),
    "t5": ("T5ForConditionalGeneration", "t5", {
        "vocab_size": 19, "d_model": 8, "d_kv": 3, "d_ff": 12, "num_heads": 2, "relative_attention_num_buckets": 6,
        "relative_attention_max_distance": 7, "num_layers": 2}),
    "llama-yarn": ("LlamaForCausalLM", "llama", {
        "vocab_size": 19, "hidden_size": 8, "num_attention_heads": 2, "head_dim": 10, "num_key_value_heads": 1,
        "intermediate_size": 12, "max_position_embeddings": 64, "num_hidden_layers": 2, "rope_parameters": YARN}),
    "qwen3": ("Qwen3ForCausalLM", "qwen3", {
        "vocab_size": 19, "hidden_size": 8, "num_attention_heads": 4, "head_dim": 6, "num_key_value_heads": 2,
        "intermediate_size": 12, "max_position_embeddings": 8, "num_hidden_layers": 2, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}}),
    "gemma2": ("Gemma2ForCausalLM", "gemma2", GEMMA | {
        "num_hidden_layers": 2, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3ForCausalLM", "gemma3_text", GEMMA | {
        "num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0}}}),
    "smollm3": ("SmolLM3ForCausalLM", "smollm3", {
        "vocab_size": 19, "hidden_size": 12, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 10,
        "max_position_embeddings": 16, "num_hidden_layers": 3, "no_rope_layers": [1, 0, 1], "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}),
    "olmo2": ("Olmo2ForCausalLM", "olmo2", {
        "vocab_size": 19, "hidden_size": 12, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 10,
        "max_position_embeddings": 16, "num_hidden_layers": 2, "pad_token_id": 0, "eos_token_id": 2}),
    "phi3": ("Phi3ForCausalLM", "phi3", {
        "vocab_size": 19, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 10,
        "max_position_embeddings": 16, "num_hidden_layers": 2, "sliding_window": 4, "pad_token_id": 0, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}}),
    "gpt_neox": ("GPTNeoXForCausalLM", "gpt_neox", {
        "vocab_size": 19, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 12,
        "max_position_embeddings": 16, "num_hidden_layers": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}}),
    "gpt_oss": ("GptOssForCausalLM", "gpt_oss", {
        "vocab_size": 19, "hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10,
        "intermediate_size": 5, "max_position_embeddings": 64, "num_hidden_layers": 2, "sliding_window": 3,
        "num_local_experts": 4, "num_experts_per_tok": 2, "swiglu_limit": 1.0,
        "rope_parameters": YARN | {"truncate": False}}),
    "mixtral": ("MixtralForCausalLM", "mixtral", {
        "vocab_size": 19, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
        "max_position_embeddings": 16, "num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "qwen3_moe", {
        "vocab_size": 19, "hidden_size": 8, "num_attention_heads": 4, "head_dim": 6, "num_key_value_heads": 2,
        "intermediate_size": 12, "moe_intermediate_size": 5, "max_position_embeddings": 16, "num_hidden_layers": 2,
        "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True, "mlp_only_layers": [0]}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", "deepseek_v3", {
        "vocab_size": 19, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 12,
        "moe_intermediate_size": 5, "max_position_embeddings": 64, "num_hidden_layers": 2, "first_k_dense_replace": 1,
        "q_lora_rank": 7, "kv_lora_rank": 5, "qk_rope_head_dim": 6, "qk_nope_head_dim": 3, "v_head_dim": 4,
        "n_routed_experts": 6, "n_group": 3, "topk_group": 2, "num_experts_per_tok": 3, "n_shared_experts": 2,
        "routed_scaling_factor": 1.5, "num_mtp_layers": 0, "rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 1.3}}),
    "modernbert": ("ModernBertForMaskedLM", "modernbert", {
        "vocab_size": 19, "hidden_size": 12, "num_attention_heads": 2, "intermediate_size": 10,
        "max_position_embeddings": 16, "num_hidden_layers": 3, "local_attention": 4, "global_attn_every_n_layers": 2,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
        "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                            "full_attention": {"rope_type": "default", "rope_theta": 1000.0}}}),
    "bart": ("BartForConditionalGeneration", "bart", SEQUENCES),
    "marian": ("MarianMTModel", "marian", SEQUENCES | {
        "activation_function": "swish", "pad_token_id": 18, "decoder_start_token_id": 18}),
    "vit": ("ViTForImageClassification", "vit", {
        "image_size": [6, 4], "patch_size": 2, "num_channels": 3, "hidden_size": 8, "num_attention_heads": 2,
        "intermediate_size": 12, "num_hidden_layers": 2, "num_labels": 5}),
}
FLOAT32 = ("gpt2", "llama", "bert", "t5")      # their gradients are stored in float32, those of the others in float64
SEEDS = {"deepseek_v3": 7}                       # one with which some token goes to each expert; 3 in the others
PADDING = {"bart": 1, "marian": 18}             # 0 in the others


def inputs(name):
    """{name in transformers: array}, targets"""
    rng = np.random.default_rng(11)
    if name == "vit":
        return {"pixel_values": rng.normal(size=(2, 3, 6, 4))}, rng.integers(0, 5, 2)
    ids = rng.integers(3, 18 if name == "marian" else 19, (2, 7))
    mask = np.ones(ids.shape, int)
    mask[1, 5:] = 0
    ids[mask == 0] = PADDING.get(name, 0)
    given = {"input_ids": ids, "attention_mask": mask}
    if name == "bert":
        given["token_type_ids"] = rng.integers(0, 2, ids.shape)
    starts = {"t5": 0, "bart": 2, "marian": 18}
    if name in starts:
        begin = np.full((2, 1), starts[name])
        given["decoder_input_ids"] = np.hstack([begin, rng.integers(2, 18 if name == "marian" else 19, (2, 5))])
        return given, rng.integers(0, 19, (2, 6))
    return given, np.where(mask, rng.integers(0, 19, ids.shape), -1)


def write(name):
    import torch
    from helpers.hugging_face import double_precision, gradients_by_name, theirs, write_model

    architecture, family, sizes = SIZES[name]
    folder = write_model(SMALL / name, architecture, family, sizes, SEEDS.get(name, 3))
    (folder / "generation_config.json").unlink(missing_ok=True)
    given, targets = inputs(name)
    model = theirs(folder, architecture)
    with double_precision():
        logits = model(**{name: torch.tensor(value) for name, value in given.items()}).logits
        real = torch.tensor(targets >= 0)
        torch.nn.functional.cross_entropy(logits[real], torch.tensor(targets)[real]).backward()
    dtype = np.float32 if name in FLOAT32 else np.float64
    gradients = {name: gradient.astype(dtype) for name, gradient in gradients_by_name(model).items()}
    np.savez_compressed(folder / "values.npz", targets=targets, logits=logits.detach().numpy(),
                        **{f"in.{name}": value for name, value in given.items()},
                        **{f"gradient.{name}": value for name, value in gradients.items()})


if __name__ == "__main__":
    for name in sys.argv[1:] or SIZES:
        write(name)
