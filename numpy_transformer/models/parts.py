"""Parts that several models share."""

from ..argument_checks import check_choice
from ..layers.positions import LearnedPositionalEmbedding, SinusoidalPositionalEncoding


def make_positions(positions, max_len, d_model, rng, choices=("learned", "sinusoidal", "rotary")):
    """Returns the module that adds positions to the embeddings, or None for "rotary" and "relative", which act inside attention.

    Raises: ValueError unless `positions` is one of the choices.
    """
    check_choice("positions", positions, choices)
    if positions == "learned":
        return LearnedPositionalEmbedding(max_len, d_model, rng)
    if positions == "sinusoidal":
        return SinusoidalPositionalEncoding(d_model, max_len, rng=rng)
    return None
