"""The components with which a class of one's own can be compared: their exercises, settings and parameters."""

from dataclasses import dataclass
from typing import Callable

import numpy as np

ALIASES = {"gamma": ("weight", "scale", "g"), "beta": ("bias", "shift", "b"), "wg": ("gate", "w_gate"),
           "wu": ("up", "w_up"), "wd": ("down", "w_down"), "w1": ("up",), "w2": ("down",), "eps": ("epsilon",),
           "query": ("q", "w_q", "wq"), "key": ("k", "w_k", "wk"), "value": ("v", "w_v", "wv"),
           "output": ("out", "o", "w_o", "wo"), "num_heads": ("heads", "n_heads", "h"), "temperature": ("t",)}
OFF = {"dropout": 0.0, "rng": 0}                # arguments of a constructor that no exercise has
BLOCK = {"norm1": ("norm1", "ln1", "norm_1", "attention_norm"), "attention": ("attention", "attn", "self_attention"),
         "norm2": ("norm2", "ln2", "norm_2", "feed_forward_norm"), "feed_forward": ("feed_forward", "ff", "ffn", "mlp")}


@dataclass(frozen=True)
class Component:
    """A component and its exercises.

    Parameters:
        numbers : its exercise, a class, or those of its forward and its backward as functions
        parts : function of the exercise's arguments (those of the constructor, for a class) that returns the arguments
            of the component's constructor in order, as a dict, and the values of its parameters, as another
        inputs : for functions, the names of the arguments that are forward's
        adapt : function (arguments by name) -> arguments by name, which changes the cases to what a class can do
        forward : for an exercise in backward alone, the correct forward as a function of all its arguments
    """

    numbers: tuple
    parts: Callable
    inputs: tuple = ()
    adapt: Callable = dict
    forward: Callable = None


def sizes_of_gated(x, Wg, Wu, Wd, dy=None):
    return {"d_model": len(Wg), "d_ff": len(Wd)}, {"Wg": Wg, "Wu": Wu, "Wd": Wd}


def parts_of_attention(num_heads, **linears):
    arrays = {f"{name}.{part}": array for name, pair in linears.items()
              for part, array in zip(("weight", "bias"), pair)}
    return {"d_model": len(arrays["query.weight"]), "num_heads": num_heads}, arrays


def parts_of_block(norm1, attention, norm2, feed_forward):
    width = len(norm1[0])
    return {"d_model": width, "num_heads": 1, "d_ff": width}, {}


def without_dropout(arguments):
    """Makes p the softmax of all scores, and m 1: what a class without mask and dropout computes."""
    if "m" not in arguments:
        return arguments
    scores = arguments["q"] @ arguments["k"].mT / np.sqrt(arguments["q"].shape[-1])
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return {**arguments, "p": p / p.sum(-1, keepdims=True), "m": np.ones_like(p)}


def from_position_0(arguments):
    """Makes cos and sin those of the positions 0, 1, ..., as in a class that computes them itself."""
    if "dy" not in arguments:
        return arguments
    T, d = arguments["dy"].shape[-2:]
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    return {**arguments, "cos": np.cos(angles), "sin": np.sin(angles)}


def feed_forward(x, W1, b1, W2, dy):
    return np.maximum(0, x @ W1 + b1) @ W2


LIKE = {
    "Linear": Component(("02.2",), lambda weight, bias: (
        dict(zip(("d_in", "d_out"), weight.shape)), {"weight": weight, "bias": bias})),
    "Softmax": Component(("01.5",), lambda temperature: ({"temperature": temperature}, {})),
    "LayerNorm": Component(("08.3",), lambda gamma, beta, eps: (
        {"d_model": len(gamma), "eps": eps}, {"gamma": gamma, "beta": beta})),
    "SelfAttention": Component(("07.6",), parts_of_attention),
    "EncoderBlock": Component(("10.5",), parts_of_block),
    "PoolingHead": Component(("11.5",), lambda weight, bias: (
        dict(zip(("d_model", "num_classes"), weight.shape)), {"weight": weight, "bias": bias})),
    "ReLU": Component(("09.1",), lambda x, dy: ({}, {}), ("x",), forward=lambda x, dy: np.maximum(0, x)),
    "GELU": Component(("09.2", "09.3"), lambda x, dy=None: ({}, {}), ("x",)),
    "SwiGLU": Component(("09.4", "09.5"), sizes_of_gated, ("x",)),
    "FeedForward": Component(("09.6",), lambda x, W1, b1, W2, dy: (
        {"d_model": len(W1), "d_ff": len(b1)}, {"W1": W1, "b1": b1, "W2": W2, "b2": np.zeros(len(W1), W2.dtype)}),
        ("x",), forward=feed_forward),
    "RMSNorm": Component(("16.1", "16.2"), lambda x, gamma, eps, dy=None: (
        {"d_model": len(gamma), "eps": eps}, {"gamma": gamma}), ("x",)),
    "RotaryEmbedding": Component(("16.3", "16.4"), lambda x=None, offset=0, dy=None, cos=None, sin=None: (
        {"d_head": (dy if x is None else x).shape[-1]}, {}), ("x", "offset"), from_position_0),
    "ScaledDotProductAttention": Component(("05.1", "05.2"), lambda q, k, v, p=None, m=None, dy=None: ({}, {}),
                                           ("q", "k", "v"), without_dropout),
}


def find_component(name):
    """Returns (name, Component) for a name in any case. Raises: ValueError that lists all of them."""
    for known, component in LIKE.items():
        if known.lower() == name.lower():
            return known, component
    raise ValueError(f"there are no known mistakes for a class like {name!r}; there are some for {', '.join(LIKE)}")


def same_name(wanted, name):
    """Returns True if a parameter's dotted name means the same as the exercise's: w_q and q.weight are query.weight."""
    wanted, name = wanted.lower().split("."), name.lower().split(".")
    if len(wanted) == len(name):
        return all(map(means, name, wanted))
    if len(wanted) > len(name):
        return means(name[0], wanted[0]) and wanted[-1] == "weight"
    return any(means(part, wanted[0]) for part in name)


def means(name, wanted):
    """Returns True if a name is the wanted one or another usual name for the same thing."""
    return name.lower() in (wanted.lower(), *ALIASES.get(wanted.lower(), ()))
