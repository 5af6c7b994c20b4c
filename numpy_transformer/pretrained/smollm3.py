"""SmolLM3 (Bakouch et al. 2025): LLaMA without positions in every fourth block. SmolLM and SmolLM2 are LLaMA."""

from ..file_checks import quoted
from .llama import build_llama, make_family, settings_with
from .rotary_settings import check_whole_heads, rope_parameters
from .windows import blocks_with_windows, with_windows


def settings(config, stored):
    """no_rope_layers has 1 for a block with positions and 0 for one without. Only the latter can have a window."""
    rope = rope_parameters(config, theta=2e6)
    check_whole_heads(rope)
    options = settings_with(rope, {"tie_word_embeddings": True} | config)
    every, num_layers = config.get("no_rope_layer_interval", 4), options["num_layers"]
    rotates = config.get("no_rope_layers")
    if rotates is None:
        rotates = [number % every != every - 1 for number in range(num_layers)]
    if len(rotates) != num_layers:
        raise ValueError(f"config.json gives no_rope_layers = {quoted(rotates)}, wanted a list of 0 and 1, one for each of the "
                         f"{num_layers} blocks; copy the original file")
    options["without_positions"] = [number for number in range(num_layers) if not rotates[number]]
    blocks = blocks_with_windows(config, num_layers, lambda number: not rotates[number])
    if not config.get("use_sliding_window", False):
        return options
    return with_windows(options, config.get("sliding_window"), blocks)


def build_smollm3(model_class, options, rng):
    """Returns a CausalLanguageModel as of LLaMA, in which some blocks rotate nothing."""
    options = dict(options)
    numbers = options.pop("without_positions")
    model = build_llama(model_class, options, rng)
    for number in numbers:
        model.decoder.blocks[number].attention.rotary = None
    return model


SMOLLM3 = make_family("SmolLM3", settings, build=build_smollm3)
