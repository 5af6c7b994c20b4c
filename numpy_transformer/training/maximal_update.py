"""Maximal update parametrization (muP): initial weights and learning rates that depend on the width in the right way.

With them, features and their changes in a step keep their size when a model gets wider, so the learning rate that is best for
a narrow model is about the best for a wide one. Both functions compare a model with a narrower one of the same kind, the base,
and change nothing where the two have the same sizes.
"""

from collections.abc import Iterator

import numpy as np

from ..layers import MultiHeadAttention, RescaledAttention, ScaledDotProductAttention, Unembedding
from ..module import Module, Parameter


def apply_mup(model: Module, base: Module) -> Module:
    """Gives a new model the initial weights and factors of muP, in place. Returns it.

                                variance of the weights             factor
        hidden matrices         that of the base, d_in_0 / d_in
        tables of embeddings    that of the base
        tied output             (the table)                         d_0 / d, of the logits
        output Linear           that of the base, (d_in_0 / d_in)²
        attention                                                   scores sqrt(d_0) q·k / d, for heads of width d:
                                                                    a RescaledAttention

    Train it with the learning rates of mup_groups. Biases and the gains of norms stay as they are.

    Parameters:
        model : Module that has not been trained, such as a CausalLanguageModel
        base : a model that differs from it in its widths alone; its weights are those that you would start with
    Raises: ValueError if the two differ in more than their widths, or if heads of another width than in the base belong to
        attention whose factor cannot be chosen, such as FlashAttention.
    Source: Yang et al. 2022 (Tensor Programs V), table 8 for tied outputs, and the equivalent table 3 for output Linears, both
        for Adam; definition 4.1 for attention.
    """
    for parameter, other, ratio, grows in matched(model, base):
        if parameter.data.ndim == 2 and parameter.data.shape != other.data.shape:
            wanted = rms(other.data) * (ratio ** -0.5 if grows else 1 / ratio)
            parameter.data = parameter.data * (wanted / rms(parameter.data))
    for (_, module), (_, other) in zip(model.named_modules(), base.named_modules()):
        if isinstance(module, Unembedding):
            module.factor = other.factor * other.weight.data.shape[1] / module.weight.data.shape[1]
        if isinstance(module, MultiHeadAttention):
            rescale(module, other)
    return model


def rescale(layer, base):
    """Lets the attention of a layer divide its scores by the width of a head instead of its root, from that of the base on."""
    d, d_0 = (one.query.d_out // one.num_heads for one in (layer, base))
    if d == d_0:
        return
    old = layer.attention
    if not isinstance(old, ScaledDotProductAttention):
        raise ValueError(f"heads are {d} wide instead of {d_0}, and {type(old).__name__} has no factor that could make up for "
                         "it; choose attention='plain', or more heads of the same width")
    layer.attention = RescaledAttention(d_0 / d / base.attention.divisor(d_0))
    for part in ("softmax", "dropout", "score_changes"):
        setattr(layer.attention, part, getattr(old, part))


def mup_groups(model: Module, base: Module) -> dict[float, list[Parameter]]:
    """Returns {factor: parameters}: the learning rate of these parameters is that of the base times the factor.

    Matrices of Linears, tied output layers aside, have d_in_0 / d_in. All other parameters have 1, and come first:

        nt.CombinedOptimizer([nt.AdamW(parameters, lr * factor) for factor, parameters in nt.mup_groups(model, base).items()])

    Parameters, Raises, Source : as apply_mup
    """
    groups: dict[float, list[Parameter]] = {1.0: []}
    for parameter, _, ratio, _ in matched(model, base):
        if not parameter.frozen:
            groups.setdefault(1 / ratio, []).append(parameter)
    return {factor: parameters for factor, parameters in groups.items() if parameters}


def matched(model: Module, base: Module) -> Iterator[tuple[Parameter, Parameter, float, bool]]:
    """Yields (parameter, that of the base, how many times as many rows it has if they are d_in, whether d_out grows too)."""
    named, others = model.named_parameters(), dict(base.named_parameters())
    modules = dict(model.named_modules())
    if [name for name, _ in named] != list(others) or any(p.data.ndim != others[name].data.ndim for name, p in named):
        raise ValueError("the model and its base have different parameters; make both with the same arguments except for "
                         "d_model, d_ff and num_heads")
    for name, parameter in named:
        other = others[name]
        is_linear = parameter.data.ndim == 2 and hasattr(modules[name.rpartition(".")[0]], "d_in")
        rows, rows_of_base = parameter.data.shape[:1] + other.data.shape[:1] if is_linear else (1, 1)
        yield parameter, other, rows / rows_of_base, parameter.data.shape[-1:] != other.data.shape[-1:]


def rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))
