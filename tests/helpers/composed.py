"""Models of published families with random weights, made of parts as pretrained/ makes them."""

import numpy_transformer as nt
from numpy_transformer.layers.multi_head import add_qkv_bias
from numpy_transformer.pretrained import build_model

ROTARY = {"rope_base": 10000.0, "rope_interleaved": True, "rope_frequencies": None}
T5 = {"num_decoder_layers": None, "num_buckets": 32, "max_distance": 128, "output_factor": 1.0, "mask_target": True}


def language_model(vocab_size, d_model, num_heads, *sizes, qkv_bias=False, ff_dropout=None, rng=None, **options):
    """A CausalLanguageModel with the further options of LLaMA, Qwen2 and GPT-2."""
    rope = {name: options.pop(name) for name in ROTARY if name in options}
    if rope:
        base, interleaved, frequencies = (ROTARY | rope).values()
        d_head = options.get("d_head") or d_model // num_heads
        options["positions"] = nt.RotaryEmbedding(d_head, base, interleaved, frequencies)
    model = nt.CausalLanguageModel(vocab_size, d_model, num_heads, *sizes, rng=rng, **options)
    for block in model.decoder.blocks:
        if qkv_bias:
            add_qkv_bias(block.attention)
        if ff_dropout is not None:
            block.feed_forward.dropout.p = ff_dropout
    return model


def t5(src_vocab, tgt_vocab, rng=None, **options):
    """An EncoderDecoder with the further options of T5."""
    options = {"src_vocab": src_vocab, "tgt_vocab": tgt_vocab, "positions": "relative", **T5, **options}
    return build_model("t5", nt.EncoderDecoder, options, rng)
