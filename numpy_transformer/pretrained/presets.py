"""Current models at toy size: the family of each builds it from the config.json of a small one.

    nt.preset("qwen3")                              5,000 weights, checked by gradcheck in seconds
    nt.preset("qwen3", d_model=128, num_layers=4)   the same architecture at another size

What is said of each architecture is in models/current_models.py. save_pretrained writes a preset as a folder that transformers reads.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np

from ..argument_checks import check_choice, check_divides, check_positive
from ..models import INITS
from ..models.current_models import PRESETS
from ..module import Module
from ..parameter import drawing
from ..types import Seed
from .registry import Origin, build_model, describe_config


def preset(name: str, rng: Seed = None, **sizes: int) -> Module:
    """Returns a new model with the architecture of a current one, at toy size unless sizes are given.

    It takes ids (B, T) and returns logits (B, T, vocab_size), as CausalLanguageModel or MaskedLanguageModel.

    Parameters:
        name : "llama3", "qwen3", "gemma3", "deepseek-v3", "gpt-oss" or another name; an unknown one is refused with a list of all
        rng : generator or seed of the initial weights, or None
        sizes : vocab_size=64, d_model=16, num_heads=2, num_layers=2, d_ff=24, max_len=64, and what the architecture has
            besides: num_kv_heads (half of num_heads, rounded down, and at least 1), window=4, num_experts=4,
            experts_per_token=2. What "gemma3" has of these: numpy_transformer.models.current_models.PRESETS["gemma3"].sizes
    Raises: ValueError for an unknown name, or a size that the architecture does not have or that does not fit the others.
    """
    model_class, origin = checkpoint_of_preset(name, **sizes)
    rng = np.random.default_rng(rng)
    model = build_model(origin.family, model_class, origin.options, rng)
    if drawing():
        INITS["gpt2"](model, rng)                   # once more, for the parts that the family has put in
    model.origin = origin
    return model


def checkpoint_of_preset(name: str, **sizes: int) -> tuple[type[Module], Origin]:
    """Returns the class of a preset's model and its Origin, which has the options of the class and config.json.

    Raises: ValueError as preset does.
    """
    check_choice("preset", name, PRESETS)
    config = config_of(name, sizes)
    model_class, options = describe_config(config, ())
    return model_class, Origin(config["model_type"], config, options=options)


def config_of(name: str, sizes: dict[str, Any]) -> dict[str, Any]:
    """Returns config.json of a preset with these sizes, as a dict."""
    chosen = PRESETS[name]
    for size in sizes:
        if size not in chosen.sizes:
            raise ValueError(f"{name} has no size {size!r}; it has {', '.join(chosen.sizes)}")
    s = SimpleNamespace(**chosen.sizes | sizes)
    check_positive(**{size: value for size, value in vars(s).items() if value is not None})
    check_divides("d_model", s.d_model, "num_heads", s.num_heads)
    if hasattr(s, "num_experts") and s.experts_per_token > s.num_experts:
        raise ValueError(f"experts_per_token = {s.experts_per_token} is more than num_experts = {s.num_experts}; choose at most "
                         "that many")
    s.d_head = s.d_model // s.num_heads
    tokens = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}        # a small vocabulary lacks the usual ones
    return {"architectures": [chosen.architecture], **tokens, **chosen.config(s)}
