"""Qwen2 (Yang et al. 2024): LLaMA with biases of q, k and v; some of its models have sliding windows."""

from .llama import make_family, settings as llama_settings
from .windows import blocks_with_windows, with_windows


def settings(config, stored):
    return upper_windows(llama_settings(config, stored) | {"qkv_bias": True}, config)


def upper_windows(options, config):
    """The upper blocks have a window, from max_window_layers on, unless config.json has a list of their types."""
    blocks = blocks_with_windows(config, options["num_layers"], lambda number: number >= config.get("max_window_layers", 28))
    if not config.get("use_sliding_window", False):
        return options
    return with_windows(options, config.get("sliding_window", 4096), blocks)


QWEN2 = make_family("Qwen2", settings)
