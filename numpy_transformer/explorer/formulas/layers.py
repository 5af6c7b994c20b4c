"""Formulas of the layers with a weight, of positions, dropout and activations."""

from ...layers import (GELU, Dropout, Embedding, LearnedPositionalEmbedding, Linear, LoRALinear, ReLU, RotaryEmbedding,
                       SiLU, SinusoidalPositionalEncoding, StraightThroughLinear, Tanh, Unembedding)
from .writers import lines, spells


@spells(Linear)
def linear(op):
    bias = " + bias[o]" if op.has("bias") else ""
    yield f"y[..., o] = sum(i, x[..., i] * weight[i, o]){bias}"
    yield "dx[..., i] = sum(o, dy[..., o] * weight[i, o])"
    yield "dweight[i, o] = sum(..., x[..., i] * dy[..., o])"
    yield "dbias[o] = sum(..., dy[..., o])"


@spells(LoRALinear)
def lora_linear(op):
    op.name(s=op.module.scale)
    bias = " + bias[o]" if op.has("bias") else ""
    xA, dyB = "sum(i, x[..., i] * A[i, r])", "sum(o, dy[..., o] * B[r, o])"
    yield f"y[..., o] = sum(i, x[..., i] * weight[i, o]){bias} + s * sum(r, {xA} * B[r, o])"
    yield f"dx[..., i] = sum(o, dy[..., o] * weight[i, o]) + s * sum(r, {dyB} * A[i, r])"
    yield f"dA[i, r] = s * sum(..., x[..., i] * {dyB})"
    yield f"dB[r, o] = s * sum(..., {xA} * dy[..., o])"
    yield "dbias[o] = sum(..., dy[..., o])"


@spells(StraightThroughLinear)
def straight_through(op):
    """The rounding is any function, so y and dx have no formula."""
    yield "dweight[i, o] = sum(..., x[..., i] * dy[..., o])"
    yield "dbias[o] = sum(..., dy[..., o])"


@spells(Unembedding)
def unembedding(op):
    scale = ""
    if op.module.factor != 1:
        op.name(factor=op.module.factor)
        scale = "factor * "
    yield f"y[..., v] = {scale}sum(c, x[..., c] * weight[v, c])"
    yield f"dx[..., c] = {scale}sum(v, dy[..., v] * weight[v, c])"
    yield f"dweight[v, c] = {scale}sum(..., dy[..., v] * x[..., c])"


@spells(Embedding)
def embedding(op):
    scale = ""
    if op.module.factor != 1:
        op.name(d_model=op.module.d_model)
        scale = "sqrt(d_model) * "
    y = f"{scale}weight[ids[...], c]"
    dweight = f"{scale}sum(..., dy[..., c], where=ids[...] == v)"
    if op.module.pad_id is not None:
        op.name(pad_id=op.module.pad_id)
        y += " if ids[...] != pad_id else 0"
        dweight += " if v != pad_id else 0"
    yield f"y[..., c] = {y}"
    yield f"dweight[v, c] = {dweight}"


@spells(LearnedPositionalEmbedding)
def learned_positions(op):
    position = position_of_token(op)
    yield f"y[..., t, c] = x[..., t, c] + weight[{position}, c]"
    yield "dx[..., t, c] = dy[..., t, c]"
    yield f"dweight[p, c] = sum(..., t, dy[..., t, c], where={position} == p)"


@spells(SinusoidalPositionalEncoding)
def sinusoids(op):
    op.name(D=op.module.d_model)
    position = position_of_token(op)
    yield f"""
        angle[..., t, i] = {position} / 10000 ** (2 * i / D)
        y[..., t, c] = x[..., t, c] + (sin(angle[..., t, c // 2]) if c % 2 == 0 else cos(angle[..., t, c // 2]))
    """
    yield "dx[..., t, c] = dy[..., t, c]"


def position_of_token(op):
    """Returns the text for the position of token t."""
    if op.has("positions"):
        return "positions[..., t]"
    return plus_offset(op)


def plus_offset(op):
    return "(t + offset)" if op.numbers.get("offset") else "t"


@spells(RotaryEmbedding)
def rotary(op):
    """The first feature a of a pair becomes a cos - b sin, the second one, b, becomes a sin + b cos."""
    op.name(d=op.module.d_head, half=op.module.d_head // 2)
    token = "t"
    row = "..., t"
    position = "positions[t]" if op.has("positions") else plus_offset(op)
    if op.has("positions") and op.arrays["positions"].ndim > 1:
        token = "b, t"                              # the batch is the first axis of x, heads may come after it
        row = "b, ..., t"
        position = "positions[b, t]"
    if op.module.interleaved:                       # features c and c + 1 are a pair
        pair, is_first, step = "c // 2", "c % 2 == 0", "1"
    else:                                           # features c and c + half
        pair, is_first, step = "c % half", "c < half", "half"
    angle = f"angle[{token}, i] = {position} {per_position(op)}"
    cos = f"cos(angle[{token}, {pair}])"
    sin = f"sin(angle[{token}, {pair}])"
    for result, x, first_sign, second_sign in (("y", "x", "-", "+"), ("dx", "dy", "+", "-")):
        first = f"{x}[{row}, c] * {cos} {first_sign} {x}[{row}, c + {step}] * {sin}"
        second = f"{x}[{row}, c] * {cos} {second_sign} {x}[{row}, c - {step}] * {sin}"
        yield lines(angle, f"{result}[{row}, c] = {first} if {is_first} else {second}")


def per_position(op):
    """Returns the text of the factor by which a rotary angle grows with the position."""
    if op.module.base is not None:
        op.name(base=op.module.base)
        return "/ base ** (2 * i / d)"
    names = [f"theta_{i}" for i in range(len(op.module.frequencies))]
    op.name(**dict(zip(names, op.module.frequencies.tolist())))
    cases = "".join(f"{name} if i == {i} else " for i, name in enumerate(names[:-1]))
    return f"* ({cases}{names[-1]})"


@spells(Dropout)
def dropout(op):
    scale = " * scale[...]" if op.has("scale") else ""      # m / (1 - p), drawn in training
    yield f"y[...] = x[...]{scale}"
    yield f"dx[...] = dy[...]{scale}"


@spells(ReLU)
def relu(op):
    yield "y[...] = x[...] if x[...] > 0 else 0"
    yield "dx[...] = dy[...] if x[...] > 0 else 0"


@spells(GELU)
def gelu(op):
    if op.module.approximate == "tanh":
        op.name(cubic=op.module.CUBIC)
        phi = """
            a = sqrt(2 / pi)
            Phi[...] = (1 + tanh(a * (x[...] + cubic * x[...] ** 3))) / 2
        """
        x_slope = "2 * x[...] * Phi[...] * (1 - Phi[...]) * a * (1 + 3 * cubic * x[...] ** 2)"
    else:
        phi = "Phi[...] = (1 + erf(x[...] / sqrt(2))) / 2"
        x_slope = "x[...] * exp(-x[...] ** 2 / 2) / sqrt(2 * pi)"
    yield lines(phi, "y[...] = x[...] * Phi[...]")
    yield lines(phi, f"dx[...] = dy[...] * (Phi[...] + {x_slope})")


@spells(SiLU)
def silu(op):
    sigma = "sigma[...] = 1 / (1 + exp(-x[...]))"
    yield lines(sigma, "y[...] = x[...] * sigma[...]")
    yield lines(sigma, "dx[...] = dy[...] * sigma[...] * (1 + x[...] * (1 - sigma[...]))")


@spells(Tanh)
def tanh(op):
    yield "y[...] = tanh(x[...])"
    yield "dx[...] = dy[...] * (1 - y[...] ** 2)"
