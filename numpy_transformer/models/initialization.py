"""The initial weights of a whole model, by the name of the code or paper that they follow."""

import math
from typing import Any

import numpy as np

from ..argument_checks import check_choice
from ..layers.initial_weights import normal, truncated_normal, uniform
from ..module import Module, Parameter
from ..parameter import drawing
from ..types import Component


def initialize(model: Module, init: str, rng: np.random.Generator) -> None:
    """Draws the matrices of a new model. Biases stay zero, norms stay the identity, and a tied matrix is drawn once.

    Within unfilled() it draws nothing.

    Parameters: model : Module, just built; init : "xavier", "keras", "gpt2" or "bert"; rng : Generator
    Raises: ValueError for another name.
    """
    check_choice("init", init, INITS)
    if drawing():
        INITS[init](model, rng)


def xavier(model: Module, rng: np.random.Generator) -> None:
    """Keeps the weights that the components have drawn themselves.

    Linear: uniform in ±sqrt(6 / (d_in + d_out)). Embedding: N(0, 1/d_model). Learned positions: N(0, 0.02²).
    Source: Glorot and Bengio 2010, equation 16; for the embedding tensor2tensor, the code of Vaswani et al. 2017.
    """


def keras(model: Module, rng: np.random.Generator) -> None:
    """The defaults of Keras: Linear as in "xavier", embeddings uniform in ±0.05, and attention's projections smaller.

    Keras stores the query projection as an array (d_model, heads, d). Its Glorot initializer treats all axes before the
    last two as the window of a convolution, and multiplies both fans by their size:

        query, key, value:  bound² = 6 / (d_model (heads + d))
        output:             bound² = 6 / (heads (d + d_model))

    With d_model = 64 and 4 heads these bounds are 0.068 and 0.137; for a (64, 64) matrix the bound would be 0.217.
    Source: keras.layers.MultiHeadAttention, Dense and Embedding; compute_fans in keras.initializers.
    """
    modules = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        if parameter.data.ndim != 2:
            continue
        owner, attention = (modules.get(name.rsplit(".", n)[0]) for n in (1, 2))
        if not hasattr(owner, "d_in"):                      # not a Linear: a table of tokens, segments or positions
            parameter.data = uniform(rng, parameter.data.shape, 0.05)
        elif hasattr(attention, "num_kv_heads"):
            parameter.data = uniform(rng, parameter.data.shape, keras_bound(attention, owner))


def keras_bound(attention: Any, linear: Any) -> float:
    """Returns Glorot's bound with the fans that Keras computes for this projection of an attention layer."""
    d_model = attention.query.d_in
    d = attention.query.d_out // attention.num_heads
    if linear is attention.output:
        return math.sqrt(6 / (attention.num_heads * (d + d_model)))
    return math.sqrt(6 / (d_model * (linear.d_out // d + d)))


def gpt2(model: Module, rng: np.random.Generator) -> None:
    """N(0, 0.02²), divided by sqrt(N) for the projections of the N sublayers of a stack that add to the residual stream.

    An embedding that is multiplied by sqrt(d_model), or a tied output layer by a factor, keeps N(0, 1/d_model), because
    0.02 is meant for unscaled ones.
    Source: Radford et al. 2018, section 4.1; Radford et al. 2019, section 2.3.
    """
    residual: dict[int, int] = {}                                       # id of a weight: N
    unchanged: set[int] = set()                                         # ids of weights
    for _, module in model.named_modules():
        if isinstance(getattr(module, "blocks", None), list):           # an Encoder or a Decoder
            sublayers = [linears for block in module.blocks for linears in residual_projections(block)]
            residual |= {id(linear.weight): len(sublayers) for linears in sublayers for linear in linears}
        elif getattr(module, "factor", 1) != 1 and hasattr(module, "weight"):       # an Embedding or its transpose, scaled
            unchanged.add(id(module.weight))
    for parameter in matrices(model):
        if id(parameter) not in unchanged:
            std = 0.02 / math.sqrt(residual.get(id(parameter), 1))
            parameter.data = normal(rng, parameter.data.shape, std)


def bert(model: Module, rng: np.random.Generator) -> None:
    """N(0, 0.02²), truncated at two standard deviations, for every matrix.

    Source: `initializer_range` and `create_initializer` in the published code of Devlin et al. 2019.
    """
    for parameter in matrices(model):
        parameter.data = truncated_normal(rng, parameter.data.shape, 0.02)


def residual_projections(block: Component) -> list[list[Any]]:
    """Returns for each sublayer of a block the Linears whose output is added to the residual stream: one, or one of each
    expert.
    """
    feed_forward = getattr(block, "feed_forward", None)
    layers = [*getattr(feed_forward, "experts", [feed_forward]), getattr(feed_forward, "shared", None)]
    sublayers = [[getattr(getattr(block, name, None), "output", None)] for name in ("attention", "cross_attention")]
    sublayers.append([getattr(layer, "down", None) for layer in layers])
    found = [[linear for linear in linears if hasattr(linear, "weight")] for linears in sublayers]
    return [linears for linears in found if linears]


def matrices(model: Module) -> list[Parameter]:
    """Returns the parameters with two axes."""
    return [parameter for parameter in model.parameters() if parameter.data.ndim == 2]


INITS = {"xavier": xavier, "keras": keras, "gpt2": gpt2, "bert": bert}
