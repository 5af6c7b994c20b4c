"""Qwen2 (Yang et al. 2024): LLaMA with biases of q, k and v; some of its models have sliding windows."""

from .llama import make_family, settings as llama_settings, with_windows

LAYER_TYPES = {"full_attention": False, "sliding_attention": True}      # whether a block has a window


def settings(config, stored):
    """The upper blocks have a window, from max_window_layers on, unless config.json has a list of their types."""
    options = llama_settings(config, stored) | {"qkv_bias": True}
    if not config.get("use_sliding_window", False):
        return options
    window = config.get("sliding_window", 4096)
    types = config.get("layer_types")
    if types is None:
        return with_windows(options, window, lambda number: number >= config.get("max_window_layers", 28))
    unknown = [name for name in types if name not in LAYER_TYPES]
    if unknown or len(types) != options["num_layers"]:
        raise ValueError(f"config.json lists the layer_types {', '.join(map(str, types))}; this package supports "
                         f"{' and '.join(LAYER_TYPES)}, one for each of the {options['num_layers']} blocks; copy the "
                         "original file")
    return with_windows(options, window, lambda number: LAYER_TYPES[types[number]])


QWEN2 = make_family("Qwen2", settings)
