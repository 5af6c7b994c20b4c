"""Mistral (Jiang et al. 2023): LLaMA with a sliding window in every block."""

from .llama import make_family, settings as llama_settings
from .windows import with_windows


def settings(config, stored):
    """The window is 4,096 tokens if config.json does not name it, and null says that there is none."""
    return with_windows(llama_settings(config, stored), config.get("sliding_window", 4096))


MISTRAL = make_family("Mistral", settings)
