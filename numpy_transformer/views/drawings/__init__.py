"""Drawings of what the lessons are about, in one style, for light and for dark pages. draw(NAME) returns one as a Figure.

style.py, canvas.py, values.py              colors, text sizes and lengths; boxes, arrays, arrows and braces; numbers
attention.py, heads.py, masks.py            queries, keys and values, forward and backward; heads; who sees whom
layers.py, residual.py, paper.py            norms and feed-forward; the residual stream; the model of Vaswani et al. 2017
calculus.py, training.py                    backward on numbers and arrays, and its checks; losses, steps and batches
words.py, positions.py, recurrent.py        tokens and embeddings; positions; networks before the Transformer
encoders.py, writing.py, decoding.py        what encoders, decoders and both together are used for
tiles.py, machines.py, low_rank.py          attention in tiles; several machines; low-rank adaptation
numbers.py                                  numbers of few bits
guessing.py                                 tokens that are guessed and verified
experts.py                                  which experts a token uses
scores.py                                   where scores and logits are kept small
sees_less.py                                windows, kept tokens and blocks of keys
"""

import importlib

from ...texts import Message, render

PLACES = {                                      # file -> its drawings
    "attention": ["library", "attention", "attention_backward"],
    "heads": ["head_shapes", "grouped_queries", "latent_attention"],
    "masks": ["masks"],
    "layers": ["normalized_axes", "feed_forward"],
    "residual": ["residual_stream", "residual_stream_backward"],
    "paper": ["encoder_and_decoder"],
    "calculus": ["graph_of_scalars", "scalars_and_arrays", "linear_backward", "checks"],
    "training": ["softmax_and_loss", "optimizer_step", "accumulation", "orthogonal_step"],
    "words": ["tokens", "lookup"],
    "positions": ["embedding_plus_position", "rotary"],
    "recurrent": ["recurrent_cell", "attention_over_states"],
    "encoders": ["classifier", "padding", "patches", "masked_words", "tags_and_vectors", "span"],
    "writing": ["three_attentions", "next_token", "text_to_text"],
    "decoding": ["cache", "beam_search"],
    "tiles": ["tiles"],
    "machines": ["ring", "sharding"],
    "low_rank": ["low_rank"],
    "numbers": ["small_numbers"],
    "guessing": ["guess_and_verify"],
    "experts": ["experts"],
    "scores": ["tame_scores"],
    "sees_less": ["sees_less"],
}


def names():
    """Returns the names of all drawings."""
    return [name for drawings in PLACES.values() for name in drawings]


def text_of(name):
    """Returns what a drawing shows in one to three sentences, for readers who cannot see it."""
    place_of(name)
    return render(Message(f"drawings.{name}.text"))


def draw(name, dark=False):
    """Draws one of `names()`.

    Parameters:
        name : str
        dark : bool, True for light colors on a dark page; nothing else differs
    Returns: matplotlib Figure
    """
    module = importlib.import_module(f"{__name__}.{place_of(name)}")
    canvas = importlib.import_module(f"{__name__}.canvas").Canvas(name, dark)
    getattr(module, name)(canvas)
    return canvas.figure()


def place_of(name):
    """Returns the file of a drawing, without its ending."""
    for place, drawings in PLACES.items():
        if name in drawings:
            return place
    raise ValueError(f"there is no drawing {name!r}; choose from {', '.join(names())}")
