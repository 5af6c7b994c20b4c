"""What checkpoints of other families have, named by what shows it in them; some of it is built for the families here."""

import re

OF_FAMILIES = {
    "albert": "blocks that share one set of weights",
    "big_bird": "attention to blocks of tokens and to random ones",
    "bloom": "ALiBi and a norm after the embeddings of a decoder",
    "cohere": "attention and feed-forward layers side by side in a block after one norm",
    "deberta": "attention with separate scores of contents and positions",
    "deberta-v2": "attention with separate scores of contents and positions",
    "deepseek_v2": "a router without the correction of DeepSeek-V3",
    "electra": "an embedding that is narrower than the blocks, and a head that finds replaced tokens",
    "falcon": "attention and feed-forward layers side by side in a block after one norm",
    "gemma3": "an encoder of images beside the model of texts (gemma3_text)",
    "gemma3n": "embeddings of each block and blocks that are left out",
    "gemma4": "an encoder of images and sounds beside the model of texts",
    "gpt_bigcode": "a decoder of the kind of GPT-2 with one head of keys and values",
    "gpt_neo": "attention without the division by sqrt(d), in every second block within a window",
    "gptj": "attention and feed-forward layers side by side after one norm, and rotary positions on a part of each head",
    "granite": "factors on embeddings, scores, residuals and logits",
    "llama4": "a mixture of experts in every second block, and attention within chunks",
    "longformer": "attention within a window, and to all tokens from some",
    "m2m_100": "an encoder-decoder of pre-norm blocks with sinusoidal positions",
    "mamba": "state-space layers",
    "mbart": "an encoder-decoder of pre-norm blocks with learned positions",
    "mpnet": "an encoder with relative and learned positions",
    "mpt": "ALiBi, and queries, keys and values in one array",
    "nomic_bert": "an encoder of post-norm blocks with rotary positions and gated feed-forward layers",
    "olmo": "norms without weights",
    "opt": "a decoder whose learned positions begin at 2, with ReLU and biases",
    "pegasus": "an encoder-decoder of pre-norm blocks with sinusoidal positions",
    "phi": "attention and feed-forward layers side by side after one norm, and rotary positions on a part of each head",
    "qwen2_moe": "a mixture of experts with a gated shared one",
    "qwen3_next": "linear attention in three of four blocks",
    "rwkv": "a recurrence instead of attention",
    "stablelm": "rotary positions on a part of each head, together with LayerNorm and gated feed-forward layers",
    "starcoder2": "rotary positions together with LayerNorm and biases",
    "umt5": "relative positions of its own in every block",
    "whisper": "an encoder of sound",
    "xlm-roberta-xl": "an encoder of pre-norm blocks with learned positions",
    "xlnet": "attention in two streams, with relative positions",
}
OF_OPTIONS = {                                  # in config.json, of any family: what they ask for
    "alibi": "ALiBi",
    "attn_logit_softcapping": "capped scores in attention",
    "audio_config": "an encoder of sound",
    "final_logit_softcapping": "capped logits",
    "kv_lora_rank": "keys and values that are computed from a narrower vector",
    "n_routed_experts": "a mixture of experts",
    "no_rope_layers": "blocks without positions",
    "num_experts": "a mixture of experts",
    "num_local_experts": "a mixture of experts",
    "parallel_attn": "attention and feed-forward layers side by side in a block",
    "use_parallel_residual": "attention and feed-forward layers side by side in a block",
    "vision_config": "an encoder of images",
}
OF_FIXED = {                                    # in config.json: what another value than the usual one asks for
    "add_cross_attention": "attention to an encoder's output",
    "attention_bias": "other biases in the linear layers of attention",
    "attn_logit_softcapping": "capped scores in a family that has norms of queries and keys instead",
    "classifier_bias": "a bias before the output",
    "decoder_bias": "an output without a bias",
    "is_decoder": "a causal mask in this family",
    "is_encoder_decoder": "an encoder without its decoder",
    "mlp_bias": "biases in the gated feed-forward layers",
    "norm_bias": "norms with a bias",
    "norm_topk_prob": "experts whose weights do not sum to 1 in this family",
    "position_embedding_type": "positions of another kind in this family",
    "qkv_bias": "queries, keys and values without biases",
    "scale_attn_by_inverse_layer_idx": "scores that are divided by the number of the block",
    "scale_attn_weights": "scores that are not divided by sqrt(d)",
    "share_encoder_decoder_embeddings": "an encoder with an embedding of its own, and a decoder that shares one with its output",
    "swiglu_alpha": "another slope of the sigmoid in the experts",
    "tie_word_embeddings": "an output layer with weights of its own",
    "use_bidirectional_attention": "a decoder without a causal mask",
}
OF_ARRAYS = {                                   # pattern of names of arrays: what they belong to
    r"(q|k|query|key)_(layer)?norm\b": "norms of queries and keys in attention",
    r"\b(\w*experts?|block_sparse_moe|moe|router)\b": "a mixture of experts",
    r"(pre|post)_(feedforward|feed_forward|attn|self_attn|mlp)_(layer)?norm": "norms before and after each layer",
    r"\b(A_log|dt_proj|conv1d|x_proj)\b": "state-space layers",
    r"\b(vision_tower|vision_model|visual|image_newline|multi_modal_projector)\b": "an encoder of images",
    r"\b(rel_embeddings|pos_q_proj|pos_proj|pos_key_proj)\b": "attention with separate scores of contents and positions",
    r"\b(query_key_value|qkv_proj|Wqkv|W_pack|gate_up_proj|in_proj_weight)\b": "several weights in one array",
    r"\b(kv_a_proj\w*|kv_b_proj|q_a_proj|q_b_proj)\b": "queries, keys and values that are computed from narrower vectors",
    r"\b(qweight|qzeros|g_idx|weight_scale\w*|absmax|SCB)\b": "quantized weights",
    r"\b(crossattention|encoder_attn)\b": "attention to an encoder's output",
    r"\blora_\w+": "LoRA updates that are not merged",
    r"self_attn\.[qkvo]_proj\.bias$": "biases in the linear layers of attention",
    r"mlp\.(gate|up|down)_proj\.bias$": "biases in the gated feed-forward layers",
    r"\bscore\.weight$": "a head that classifies a text by its last token",
    r"\bqa_outputs\b": "a head that marks the beginning and the end of an answer",
}
BUILT = {                                       # what some family here has: it does not show why another one is not built
    "ALiBi", "a mixture of experts", "attention and feed-forward layers side by side in a block",
    "attention to an encoder's output", "biases in the linear layers of attention", "blocks without positions",
    "capped logits", "capped scores in attention", "keys and values that are computed from a narrower vector",
    "norms before and after each layer", "norms of queries and keys in attention",
    "queries, keys and values that are computed from narrower vectors", "several weights in one array"}
HEAD = re.compile(r"(cls|lm_head|vocab_\w+|classifier|pre_classifier)\.")        # how the arrays of a head begin
OF_HEADS = {                                    # end of the name of an architecture: what its head does
    "ForQuestionAnswering": "a head that marks the beginning and the end of an answer",
    "QuestionAnsweringSimple": "a head that marks the beginning and the end of an answer",
    "ForMultipleChoice": "a head that chooses among several texts",
    "ForNextSentencePrediction": "a head that tells whether a sentence follows another one",
    "ForSequenceClassification": "a head that classifies a text by its last token",
    "ForTokenClassification": "a head that classifies the tokens of a decoder",
    "DoubleHeadsModel": "two heads",
    "EncoderModel": "an encoder of the kind of T5 without its decoder",
    "LMHeadModel": "an encoder with a causal mask and the head of a language model",
    "ForCausalLM": "an encoder with a causal mask and the head of a language model",
}


def components(config, names):
    """Returns what a checkpoint of another family has that none of the families here has, as far as it shows, in words; "" if
    nothing shows.

    Parameters: config : dict; names : names of the arrays
    """
    options = [words for option, words in OF_OPTIONS.items() if config.get(option)]
    shown = [words for words in (*options, *of_arrays(names)) if words not in BUILT]
    return listed([OF_FAMILIES.get(str(config.get("model_type")), ""), *shown])


def of_arrays(names):
    """Returns a list of words for what the arrays of these names belong to, without those that no pattern knows."""
    return [words for pattern, words in OF_ARRAYS.items() if any(re.search(pattern, name) for name in names)]


def of_known_family(names):
    """Returns what unknown arrays in a checkpoint of a family that is built here belong to, in words; "" if it is unclear."""
    other_head = ["a head that config.json does not name"] if any(map(HEAD.match, names)) else []
    return listed([*of_arrays(names), *other_head])


def head_of(architecture):
    """Returns what the head of an architecture does, in words; "" for one that is not known here."""
    return next((words for ending, words in OF_HEADS.items() if str(architecture).endswith(ending)), "")


def listed(words):
    """Returns words in a row, each of them once, and none that another one contains."""
    words = list(dict.fromkeys(filter(None, words)))
    return ", ".join(each for each in words if not any(each != other and each in other for other in words))
