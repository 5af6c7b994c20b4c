"""Gradients on their way back: through a softmax, from block to block, from an output to the inputs that move it."""

import itertools
import math
import textwrap

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from .numerics import LINES, panel


def attention_backward(call, queries=None, keys=None, title="The way back through the softmax of attention"):
    """Of the first of a batch, a row for each head: the weights, dL/dweights and dL/dscores; a cross: weight exactly 0.

    Parameters: call : what nt.record wrote of a Softmax: output and dy (B, H, T, S), (H, T, S) or (T, S)
        queries, keys : tokens (or a string) for the ticks
    Raises: ValueError if no backward answered the call.
    """
    if call.dy is None:
        raise ValueError(f"no backward answered the call of {call.name!r}, so there is no gradient to draw; "
                         "call model.backward inside the `with nt.record(model)`")
    columns = [one_sequence(array) for array in (call.output, call.dy, call.gradients[0])]
    weights = columns[0]
    heads, width, height = len(weights), *map(extent, weights.shape[:0:-1])
    figure = Figure(figsize=(3 * width + 1.6, heads * (height + 0.3) + 1.8), layout="constrained")
    grid = figure.subplots(heads, 3, squeeze=False, sharex=True, sharey=True)
    for column, name, arrays in zip(grid.T, ("weights", "dL/dweights", "dL/dscores"), columns):
        heatmaps(figure, column, arrays, weights == 0, signed=arrays is not weights)
        column[0].set_title(name, fontsize=12)
        column[-1].set_xlabel("key", fontsize=12)
    for head, axes in enumerate(grid[:, 0]):
        axes.set_ylabel(f"head {head}\nquery", fontsize=12)
    label_tokens(grid.flat, weights.shape[1:], queries, keys)
    figure.suptitle(title + ("\n× hidden: weight exactly 0" if (weights == 0).any() else ""), fontsize=13)
    return figure


def heatmaps(figure, column, arrays, hidden, signed):
    """An array in each of the axes, all in one scale, and its colours below them."""
    limit = float(np.abs(arrays).max()) or 1.0
    scale = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit} if signed else {"cmap": "Blues", "vmin": 0, "vmax": 1}
    for axes, array, cells in zip(column, arrays, hidden):
        image = axes.imshow(array, interpolation="nearest", aspect="auto", **scale)
        dark = np.abs(array) > 0.6 * limit
        mark(axes, cells & ~dark, "x")
        mark(axes, cells & dark, "x", "white")
    bar = figure.colorbar(image, ax=list(column), location="bottom", aspect=25, pad=0.02, shrink=0.9,
                          ticks=[-limit, 0, limit] if signed else [0, 0.5, 1], format="%.2g")
    bar.ax.tick_params(labelsize=10)
    first, *_, last = bar.ax.get_xticklabels()
    first.set_ha("left")                        # or the labels of neighbouring bars meet
    last.set_ha("right")


def block_gradient_norms(tape):
    """(names, norms): |dL/d(output)| of every EncoderBlock and DecoderBlock on a tape, in the order of the forward.

    Calls that no backward answered are left out.
    """
    calls = [call for call in tape.calls if call.dy is not None
             and any(known.__name__ == "EncoderBlock" for known in type(call.module).__mro__)]
    arrays = [call.dy[0] if isinstance(call.dy, tuple) else call.dy for call in calls]
    return [call.name for call in calls], [float(np.linalg.norm(array)) for array in arrays]


def gradient_norms(curves, ylabel="norm of the gradient at the block's output"):
    """curves {title: norms, of layer 1 first}, or what block_gradient_norms returns: over the layers, logarithmic."""
    first = 1
    if isinstance(curves, tuple):               # blocks have numbers from 0
        first, (names, norms) = 0, curves
        stacks = [name.rpartition(".")[0] or "block" for name in names]     # decoder.blocks of decoder.blocks.0
        curves = {stack: [norm for norm, own in zip(norms, stacks) if own == stack] for stack in dict.fromkeys(stacks)}
    figure, axes = panel("layer", ylabel)
    for (title, norms), line in zip(curves.items(), itertools.cycle(LINES)):
        axes.semilogy(range(first, first + len(norms)), norms, markersize=6, label=title, **line)
    longest = max(map(len, curves.values()))
    axes.set_xticks(range(first, first + longest, 1 + longest // 12))
    axes.tick_params(which="both", labelsize=11)
    bottom, top = axes.get_ylim()
    if top < 30 * bottom:                       # too few powers of ten to be ticks alone
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
    axes.legend(fontsize=11)
    return figure


def xray(matrices, outputs=None, inputs=None):
    """What reaches what: of every output position and every input position the norm of their Jacobian.

    Parameters: matrices : {title: (T_out, T_in), not negative}; an entry that is exactly 0 stays white, with a dot
        outputs, inputs : tokens (or a string) for the ticks, or {title: tokens} where they differ
    """
    arrays = [np.asarray(matrix) for matrix in matrices.values()]
    reach = np.concatenate([array[array > 0] for array in arrays] + [[] if any(map(np.any, arrays)) else [1.0]])
    low, high = max(reach.min(), 1e-6 * reach.max()), reach.max()
    figure, grid = panels(arrays, isinstance(outputs, dict) or isinstance(inputs, dict))
    for axes, title, array in zip(grid.flat, matrices, arrays):
        image = axes.imshow(array, cmap="viridis_r", norm=LogNorm(low, high), interpolation="nearest", aspect="auto")
        mark(axes, array == 0, ".")
        label_tokens([axes], array.shape, *(tokens[title] if isinstance(tokens, dict) else tokens
                                            for tokens in (outputs, inputs)))
        axes.set_title(textwrap.fill(title, 23), fontsize=12)
    for axes in grid.flat[len(arrays):]:
        axes.axis("off")
    figure.supxlabel("input", fontsize=12)
    figure.supylabel("output", fontsize=12)
    bar = figure.colorbar(image, ax=list(grid.flat), aspect=20, extend="min" if reach.min() < low else "neither")
    bar.set_label("norm of d output / d input\n(white with a dot: exactly 0)", fontsize=12)
    return figure


def panels(arrays, differ):
    """A figure and a grid of axes for these arrays; as wide as a slide. Ticks are shared unless they differ."""
    height, width = (max(extent(array.shape[axis]) for array in arrays) for axis in (0, 1))
    lines = math.ceil(len(arrays) / min(4, max(1, 13 // width)))
    columns = math.ceil(len(arrays) / lines)
    figure = Figure(figsize=(columns * (width + 0.3) + 1.8, lines * (height + 0.6) + 0.7), layout="constrained")
    share = not differ and len({array.shape for array in arrays}) == 1
    return figure, figure.subplots(lines, columns, squeeze=False, sharex=share, sharey=share)


def one_sequence(array):
    """(H, T, S) of (B, H, T, S), (H, T, S) or (T, S)."""
    array = np.asarray(array)
    return array[None] if array.ndim == 2 else array[(0,) * (array.ndim - 3)]


def extent(count):
    """Inches for so many cells: they shrink from a third to an eighth of an inch."""
    return max(2.2, min(0.34 * count, 2.6 + 0.075 * count))


def mark(axes, where, sign, colour="0.3"):
    """A mark in each of these cells."""
    rows, columns = np.nonzero(where)
    size = min(5, 72 * min(extent(n) / n for n in where.shape) / 6)
    axes.plot(columns, rows, sign, color=colour, markersize=size, markeredgewidth=size / 5)


def label_tokens(grid, shape, rows, columns):
    """Ticks of a size that fits the cells."""
    for count, tokens in zip(shape, (rows, columns)):
        if tokens is not None and len(tokens) != count:
            raise ValueError(f"{len(tokens)} tokens {list(tokens)} for {count} positions; name one for each")
    sizes = [min(10.5, 60 * extent(n) / n) for n in shape]
    for axes in grid:
        for axis, tokens, size in ((axes.yaxis, rows, sizes[0]), (axes.xaxis, columns, sizes[1])):
            if tokens is None:
                axis.get_major_locator().set_params(integer=True)
            else:
                axis.set_ticks(range(len(tokens)), list(tokens), fontsize=size, parse_math=False)
        if columns is not None and max(map(len, columns)) > 1:
            axes.tick_params(axis="x", rotation=90)
