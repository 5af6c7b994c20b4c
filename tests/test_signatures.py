"""Names and defaults that scripts outside the project rely on: parameters in this order, with these defaults.

A parameter may be added behind those listed here; a listed one is neither renamed nor given another default. The values
of optimizers, beam search and the base model are those of the papers that the docstrings name.
"""

import ast
import importlib
import inspect
import re

import pytest

import numpy_transformer as nt

BLOCK = 'd_model, num_heads, d_ff, dropout=0.1, norm="pre", activation="relu", eps=1e-5'
ATTENTION = "d_model, num_heads, num_kv_heads=None, dropout=0.0, bias=True, rotary=None, attention=None, rng=None, d_head=None"
LATENT = ("d_model, num_heads, d_latent, d_head, d_rotary, d_value=None, rotary=None, query=None, attention=None, eps=1e-6")
SETTINGS = 'norm_layer="layer", activation="{}", eps={}, num_kv_heads=None, bias=True, d_head=None'
TEXT = f'norm="post", {SETTINGS.format("relu", 1e-6)}, positions="sinusoidal", num_segments=0, pad_id=0, mask_padding=True'
TEXT_MODEL = "vocab_size, d_model, num_heads, num_layers, d_ff=None"
SIGNATURES = {
    "Linear": "d_in, d_out, bias=True", "Embedding": "vocab_size, d_model, scale=False, pad_id=None",
    "Unembedding": "weight, factor=1.0", "Dropout": "p", "ReLU": "", "GELU": 'approximate="none"', "SiLU": "",
    "Tanh": "", "Softmax": "",
    "LogSoftmax": "", "LayerNorm": "d_model, eps=1e-5, bias=True", "RMSNorm": "d_model, eps=1e-6",
    "SinusoidalPositionalEncoding": "d_model, max_len=5000, dropout=0.0",
    "LearnedPositionalEmbedding": "max_len, d_model",
    "RotaryEmbedding": "d_head, base=10000.0, interleaved=True, frequencies=None",
    "load_pretrained": "folder", "save_pretrained": "model, folder",
    "RelativePositionBias": "num_heads, num_buckets=32, max_distance=128, causal=False",
    "UnscaledAttention": "dropout=0.0", "FirstToken": "",
    "padding_mask": "ids, pad_id=0", "combine_masks": "*masks", "AttentionMask": "",
    "ScaledDotProductAttention": "dropout=0.0", "FlashAttention": "block_size=64, causal=False",
    "MultiHeadAttention": ATTENTION, "SelfAttention": ATTENTION, "CrossAttention": ATTENTION,
    "FeedForward": 'd_model, d_ff, activation="relu", dropout=0.0, bias=True',
    "SwiGLU": 'd_model, d_ff, bias=False, rng=None, activation="silu"',
    "Block": 'attention, feed_forward, norm1, norm2, dropout=0.0, norm="pre"',
    "CrossBlock": 'attention, cross_attention, feed_forward, norm1, norm2, norm3, dropout=0.0, norm="pre"',
    "Stack": "blocks, norm=None", "CrossStack": "blocks, norm=None", "GroupedAttention": "dropout=0.0", "ALiBi": "num_heads",
    "PositionBias": "position_bias", "SlidingWindow": "window", "SymmetricWindow": "window", "SinkSoftmax": "num_heads",
    "SoftCap": "cap", "RescaledAttention": "scale, dropout=0.0", "UnitOffsetRMSNorm": "d_model, eps=1e-6", "Identity": "",
    "Sequential": "*parts", "NormedLinear": "linear, norm", "PerHead": "norm", "PartialRotary": "rotary, d_head",
    "ScaledRotary": "rotary, factor", "ParallelBlock": "attention, feed_forward, norm1, norm2, dropout=0.0",
    "Router": "d_model, num_experts, top_k, bias=False", "SoftmaxRouter": "d_model, num_experts, top_k, bias=False",
    "SigmoidRouter": "d_model, num_experts, top_k, factor=1.0, num_groups=1, top_groups=1",
    "MixtureOfExperts": "router, experts, shared=None", "ClampedSwiGLU": "d_model, d_ff, limit=7.0, bias=True",
    "with_score_changes": "attention, *changes", "gate_heads": "attention, rng=None", "add_sinks": "attention, num_heads",
    "norm_outputs": "block, attention_norm, feed_forward_norm", "norm_queries_and_keys": "attention, query_norm, key_norm",
    "BalancedRouter": "router, coefficient=0.01", "BiasBalancing": "model, rate=0.001", "tokens_per_expert": "router",
    "balance_of": "counts",
    "LatentAttention": LATENT, "AbsorbedLatentAttention": LATENT,
    "Bias": "width", "ShiftedPositions": "positions, first=2", "NormedPositions": "positions, norm",
    "SeparateSinusoids": "d_model, max_len=5000", "Patches": "channels, patch", "ClassToken": "d_model",
    "ImageClassifier": "image, patch, d_model, num_heads, num_layers, d_ff=None, num_classes=2, dropout=0.0, rng=None, *, "
                       f'norm="pre", {SETTINGS.format("gelu", 1e-6)}, channels=3, init="xavier"',
    "GatedSelfAttention": "attention, gate, output", "Sigmoid": "", "ZLoss": "criterion, coefficient=1e-4",
    "SinkWindow": "window, num_sinks", "BlockSparseAttention": "layout, block_size",
    "LinearAttention": "", "RecurrentLinearAttention": "",
    "EncoderBlock": BLOCK, "DecoderBlock": f"{BLOCK}, cross_attention=False",
    "Encoder": f"num_layers, {BLOCK}, final_norm=None",
    "Decoder": f"num_layers, {BLOCK}, cross_attention=False, final_norm=None",
    "CrossEntropyLoss": "label_smoothing=0.0, ignore_id=None", "BinaryCrossEntropyLoss": "",
    "MultiTokenStack": "trunk, heads, norm=None", "SequentialTokenBlock": "block, projection, norm_h, norm_e",
    "LanguageModel": "embedding, decoder, output, positions=None, max_len=1024, dropout=0.0",
    "CausalLanguageModel": f'{TEXT_MODEL}, max_len=1024, dropout=0.0, rng=None, *, norm="pre", '
                           f'{SETTINGS.format("gelu", 1e-5)}, positions="learned", attention="plain", tie_weights=True, '
                           'scale_embedding=False, init="gpt2"',
    "EncoderDecoder": "src_vocab, tgt_vocab, d_model=512, num_heads=8, num_layers=6, d_ff=2048, dropout=0.1, "
                      f'max_len=5000, rng=None, *, norm="pre", {SETTINGS.format("relu", 1e-5)}, positions="sinusoidal", '
                      "tie_weights=False, pad_id=0",
    "make_model": "src_vocab, tgt_vocab, N=6, d_model=512, d_ff=2048, h=8, dropout=0.1",
    "transformer_2017": "vocab_size, N=6, d_model=512, d_ff=2048, h=8, dropout=0.1",
    "TextEncoder": f"{TEXT_MODEL}, max_len=512, dropout=0.1, rng=None, *, {TEXT}",
    "SequenceClassifier": f'{TEXT_MODEL}, num_classes=1, hidden=64, dropout=0.1, rng=None, pool="mean", '
                          f'head_activation="relu", *, {TEXT}',
    "TokenClassifier": f"{TEXT_MODEL}, num_classes=2, dropout=0.1, rng=None, *, {TEXT}",
    "MaskedLanguageModel": f'{TEXT_MODEL}, max_len=512, dropout=0.1, rng=None, head_activation="gelu", *, norm="post", '
                           f'{SETTINGS.format("gelu", 1e-6)}, positions="learned", num_segments=2',
    "LoRALinear": "linear, rank, alpha=None", "merge_lora": "model", "freeze": "model, *names",
    "add_lora": 'model, rank=8, targets=("query", "value"), alpha=None, trained=()', "unfreeze": "model, *names",
    "round_to": "x, number_format", "StraightThroughLinear": "linear, rounding", "add_rounding": "model, rounding, targets=None",
    "QuantizedLinear": "linear, bits=8, group=32", "quantize": "model, bits=8, group=32, targets=None",
    "dequantize": "model", "stored_bytes": "model",
    "Module.load_state_dict": "self, state, copy=True, trained=False",
    "SGD": "parameters, lr, momentum=0.0", "Adam": "parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8",
    "AdamW": "parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, decay=None",
    "Muon": "parameters, lr=0.02, momentum=0.95, weight_decay=0.0", "CombinedOptimizer": "optimizers",
    "muon_with_adamw": "model, lr=0.02, momentum=0.95, adam_lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0",
    "hidden_weights": "model", "linear_weights": "model", "apply_mup": "model, base", "mup_groups": "model, base",
    "WSDSchedule": "optimizer, lr, min_lr, warmup, decay, steps",
    "clip_grad_norm": "parameters, max_norm", "NoamSchedule": "optimizer, d_model, warmup, factor=1.0",
    "CosineSchedule": "optimizer, lr, min_lr, warmup, steps", "ConstantSchedule": "optimizer, lr, warmup=0",
    "Trainer": "model, criterion, optimizer, schedule=None, clip=None, accumulate=1, workers=None",
    "Trainer.fit": "self, batches, steps=None, validation=None, every=None, epochs=None, patience=None, "
                   "checkpoint=None",
    "Checkpoint": "path, every=100, keep=0",
    "gradcheck": "module, *inputs, seed=0, directions=None, randomize=True, central_tolerance=1e-6, "
                 "complex_tolerance=1e-12",
    "exercise.check": "number, answer, seed=0", "exercise.hint": "number", "exercise.sheet": "number",
    "explore": "model, inputs, targets=None, criterion=None",
    "greedy_decode": "model, source, bos, eos, max_len",
    "beam_search": "model, source, bos, eos, max_len, beam=4, length_penalty=0.6, n_best=1",
    "speculative_decode": "model, draft, ids, count, guesses=4, temperature=1.0, top_k=None, top_p=None, stop=()",
    "ModelDraft": "model", "NGramDraft": "vocab_size, size=3", "MultiTokenDraft": "model",
    "generate": "model, ids, count, temperature=1.0, top_k=None, top_p=None"}


def parameters(function):
    """(name, default, kind) of each parameter; keywords after *inputs keep their order too."""
    return [(p.name, p.default, p.kind) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_and_defaults_are_those_that_were_promised(name):
    found = nt
    for part in name.split("."):
        found = getattr(found, part)
    wanted = parameters(eval(f"lambda {SIGNATURES[name]}: None"))
    assert parameters(found)[:len(wanted)] == wanted
    required = [p for p, default, kind in parameters(found)[len(wanted):]
                if default is inspect.Parameter.empty and kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert not required                                     # a call that gives what is listed here works


def test_a_missing_width_of_the_feed_forward_means_four_times_that_of_the_model():
    for make in (nt.CausalLanguageModel, nt.TextEncoder):
        model = make(11, 12, 2, 1, max_len=5)
        (block,) = (model.decoder if make is nt.CausalLanguageModel else model.encoder).blocks
        assert block.feed_forward.up.weight.data.shape == (12, 48)


LITERAL = r"""("[^"]*"|-?\d[\w.+-]*|True|False|\("[^()]*"\))"""
PARTS = ("numpy_transformer.layers", "numpy_transformer.models", "numpy_transformer.decoding")
DOCUMENTED = [name for name, value in vars(nt).items()
              if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith(PARTS)]


def stated_default(name, text):
    """The default of a parameter according to a docstring: `name=1`, `name : int (1)` or `name : "a" (default)`."""
    for pattern in (rf"\b{name}={LITERAL}", rf'\b{name}\b[\w, ]* : [^:;]*?{LITERAL} (?:\(default|by default)',
                    rf"\b{name}\b[\w, ]* : [^:;]*?\({LITERAL}[;)]"):
        found = re.search(pattern, text)
        if found:
            return ast.literal_eval(found[1])
    others = [getattr(nt, other) for other in re.findall(r"\bas (?:in )?(\w+)", text) if hasattr(nt, other)]
    return next((stated_default(name, inspect.getdoc(other)) for other in others), None)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_docstring_states_the_defaults(name):
    documented = getattr(nt, name)
    found = {p.name: p.default for p in inspect.signature(documented).parameters.values()
             if p.default not in (p.empty, None, ())}
    text = inspect.getdoc(documented)
    section = re.split(r"\n(?:Shape|Backward|Raises|Source):", text[max(text.find("Parameters"), 0):])[0]
    assert {name: stated_default(name, section) for name in found} == found


@pytest.mark.parametrize("name", ["numpy_transformer." + room for room in ("layers", "models", "decoding")])
def test_no_constructor_has_more_than_twelve_parameters(name):
    """The settings of a model stand in one dataclass, and count as one."""
    module = importlib.import_module(name)
    classes = [value for value in vars(module).values() if inspect.isclass(value)]
    assert classes
    for cls in classes:
        names = list(inspect.signature(cls.__init__).parameters)[1:]
        assert len(names) <= 12, (cls.__name__, len(names))


def test_a_setting_that_a_model_does_not_have_is_told_by_its_name():
    with pytest.raises(TypeError, match=r"TextEncoder\(\) got an unexpected keyword argument 'rotary'; its settings are norm, "):
        nt.TextEncoder(11, 12, 2, 1, rotary=True)
