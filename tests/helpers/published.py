"""Folders of published models in miniature: config.json, random weights, and a tokenizer as the family has it."""

import json

import numpy as np

from numpy_transformer.pretrained import Origin, save_pretrained
from numpy_transformer.pretrained.registry import build_model, describe_config

TEXT = "the cat sat on the mat and a dog ran to an old red house while we saw it, so the end is near. "
WORDS = sorted(set(TEXT.replace(",", "").replace(".", "").split()))
LETTERS = sorted(set(TEXT) - {" "})

BERT = {"model_type": "bert", "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
        "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "pad_token_id": 0, "hidden_dropout_prob": 0.1}
LLAMA = {"model_type": "llama", "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 20, "max_position_embeddings": 48,
         "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
         "rope_theta": 10000.0}
GEMMA = LLAMA | {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 5, "sliding_window": 8,
                 "tie_word_embeddings": True}
SEQUENCES = {"d_model": 12, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 3,
             "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 40, "scale_embedding": False}
CONFIGS = {
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 12, "n_layer": 2, "n_head": 3,
             "n_positions": 48, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "bos_token_id": 0,
             "eos_token_id": 0},
    "llama": LLAMA | {"architectures": ["LlamaForCausalLM"]},
    "bert-mlm": BERT | {"architectures": ["BertForMaskedLM"]},
    "bert-encoder": BERT | {"architectures": ["BertModel"]},
    "bert-classifier": BERT | {"architectures": ["BertForSequenceClassification"],
                               "id2label": {"0": "sad", "1": "glad", "2": "odd"}},
    "bert-tagger": BERT | {"architectures": ["BertForTokenClassification"], "id2label": {"0": "O", "1": "B-CAT"}},
    "roberta-mlm": BERT | {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "pad_token_id": 1,
                           "bos_token_id": 0, "eos_token_id": 2, "max_position_embeddings": 42, "type_vocab_size": 1},
    "t5": {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 12, "d_kv": 4, "d_ff": 20,
           "num_layers": 2, "num_heads": 3, "feed_forward_proj": "relu", "relative_attention_num_buckets": 8,
           "relative_attention_max_distance": 20, "layer_norm_epsilon": 1e-6, "pad_token_id": 0, "eos_token_id": 1,
           "decoder_start_token_id": 0, "n_positions": 40},
    "qwen3": LLAMA | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "eos_token_id": 0, "bos_token_id": 0},
    "gemma": LLAMA | {"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_act": "gelu",
                      "tie_word_embeddings": True},
    "gemma2": GEMMA | {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2"},
    "gemma3": GEMMA | {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "sliding_window_pattern": 2,
                       "rope_local_base_freq": 10000.0},
    "smollm3": LLAMA | {"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "no_rope_layers": [1, 0],
                        "head_dim": 4, "num_attention_heads": 3, "num_key_value_heads": 1},
    "olmo2": LLAMA | {"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2"},
    "phi3": LLAMA | {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "partial_rotary_factor": 0.67,
                     "sliding_window": 24},
    "gpt_neox": {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_size": 24, "num_hidden_layers": 2,
                 "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 48, "rotary_pct": 0.25,
                 "rotary_emb_base": 10000, "layer_norm_eps": 1e-5, "hidden_act": "gelu", "use_parallel_residual": True,
                 "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0},
    "gpt_oss": LLAMA | {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": True,
                        "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8, "swiglu_limit": 7.0},
    "mixtral": LLAMA | {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 4,
                        "num_experts_per_tok": 2, "sliding_window": None},
    "qwen3_moe": LLAMA | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 4,
                          "num_experts_per_tok": 2, "moe_intermediate_size": 8, "norm_topk_prob": True,
                          "mlp_only_layers": [0]},
    "deepseek_v3": LLAMA | {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "q_lora_rank": 7, "kv_lora_rank": 5,
        "qk_rope_head_dim": 4, "qk_nope_head_dim": 3, "v_head_dim": 5, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "n_group": 2, "topk_group": 1, "n_shared_experts": 1, "moe_intermediate_size": 8, "first_k_dense_replace": 1},
    "modernbert": {
        "model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], "hidden_size": 12, "num_hidden_layers": 3,
        "num_attention_heads": 3, "intermediate_size": 10, "max_position_embeddings": 48, "local_attention": 8,
        "global_attn_every_n_layers": 2, "norm_eps": 1e-5, "pad_token_id": 0, "hidden_activation": "gelu"},
    "bart": SEQUENCES | {"model_type": "bart", "architectures": ["BartForConditionalGeneration"], "pad_token_id": 1,
                         "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2, "activation_function": "gelu"},
    "marian": SEQUENCES | {"model_type": "marian", "architectures": ["MarianMTModel"], "pad_token_id": 0, "eos_token_id": 1,
                           "decoder_start_token_id": 0, "activation_function": "swish", "scale_embedding": True}}


def write_published(folder, name, seed=0, **changes):
    """Writes the folder of a model of CONFIGS with random weights, and returns its path."""
    kind = name.partition("-")[0]
    tokenizer, special = TOKENIZERS[kind if kind in TOKENIZERS else OF_RELATIVES.get(kind, "llama")]()
    config = CONFIGS[name] | {"vocab_size": tokenizer.get_vocab_size()} | changes
    model_class, options = describe_config(config, {})
    model = build_model(config["model_type"], model_class, options, seed)
    rng = np.random.default_rng(seed)
    for parameter in model.parameters():
        parameter.data = 0.3 * rng.standard_normal(parameter.data.shape) + (parameter.data.ndim == 1)
    model.origin = Origin(config["model_type"], config, {
        "tokenizer.json": tokenizer.to_str(), "special_tokens_map.json": json.dumps(special)}, {}, options)
    save_pretrained(model, folder)
    return folder


def bert_tokenizer():
    """WordPiece, with the padding and truncation that MiniLM's file asks for."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*names, *dict.fromkeys([*WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)])]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(names)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.enable_truncation(7)
    tokenizer.enable_padding(length=7)
    return tokenizer, {f"{name[1:-1].lower()}_token": name for name in names}


def byte_level(specials):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=specials, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([TEXT] * 3, trainer)
    return tokenizer


def gpt2_tokenizer():
    return byte_level(["<|endoftext|>"]), {"bos_token": "<|endoftext|>", "eos_token": {"content": "<|endoftext|>"}}


def roberta_tokenizer():
    from tokenizers import AddedToken, processors

    tokenizer = byte_level(["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])     # takes the space before it
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer, {"bos_token": "<s>", "cls_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>",
                       "sep_token": "</s>", "unk_token": "<unk>", "mask_token": {"content": "<mask>"}}


def llama_tokenizer():
    """Pieces with ▁ for the space before a word, and bytes for unknown characters."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *LETTERS]
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("a", "t"), ("c", "at"), ("▁", "cat"), ("▁", "s")]
    pieces += ["".join(pair) for pair in merges]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges, unk_token="<unk>",
                                     byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def t5_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    specials = ["<pad>", "</s>", "<unk>"]
    pieces = [(name, 0.0) for name in specials] + [("▁", -3.0), *((f"▁{word}", -4.0) for word in WORDS),
                                                   *((letter, -6.0) for letter in LETTERS)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([*specials, "<extra_id_0>", "<extra_id_1>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer, {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


TOKENIZERS = {"bert": bert_tokenizer, "gpt2": gpt2_tokenizer, "roberta": roberta_tokenizer, "llama": llama_tokenizer,
              "t5": t5_tokenizer}
OF_RELATIVES = {"qwen3": "gpt2", "qwen3_moe": "gpt2", "gpt_neox": "gpt2", "gpt_oss": "gpt2", "olmo2": "gpt2", "smollm3": "gpt2",
                "deepseek_v3": "gpt2", "modernbert": "bert", "bart": "roberta", "marian": "t5"}       # the others: llama
