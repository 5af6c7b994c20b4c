"""Draws gradients: through the softmax of attention, from block to block, and from each output back to each input."""

import itertools
import math
import textwrap

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from .step_plots import LINES, panel


def attention_backward(call, queries=None, keys=None, title="Attention weights and their gradients"):
    """Draws the weights, dL/dweights and dL/dscores of the first sequence of a batch, one row of panels per head.

    A cross marks a weight that is exactly 0.

    Parameters:
        call : what nt.record recorded of a Softmax, with output and dy of shape (B, H, T, S), (H, T, S) or (T, S)
        queries, keys : tokens (or a string) for the ticks of the rows and columns; None: positions
        title : title of the figure
    Raises: ValueError if the call had no backward pass.
    """
    if call.dy is None:
        raise ValueError(f"the call of {call.name!r} had no backward pass, so there is no gradient to draw; "
                         "call model.backward inside the `with nt.record(model)`")
    weights, dweights, dscores = (first_sequence(array) for array in (call.output, call.dy, call.gradients[0]))
    heads, T, S = weights.shape
    hidden = weights == 0
    figure = Figure(figsize=(3 * extent(S) + 1.6, heads * (extent(T) + 0.3) + 1.8), layout="constrained")
    grid = figure.subplots(heads, 3, squeeze=False, sharex=True, sharey=True)
    heatmaps(figure, grid[:, 0], weights, hidden, signed=False)
    heatmaps(figure, grid[:, 1], dweights, hidden, signed=True)
    heatmaps(figure, grid[:, 2], dscores, hidden, signed=True)
    for column, name in zip(grid.T, ("weights", "dL/dweights", "dL/dscores")):
        column[0].set_title(name, fontsize=12)
        column[-1].set_xlabel("key position" if keys is None else "key token", fontsize=12)
    query_label = "query position" if queries is None else "query token"
    for head, axes in enumerate(grid[:, 0]):
        axes.set_ylabel(f"head {head}\n{query_label}", fontsize=12)
    label_tokens(grid.flat, (T, S), queries, keys)
    if hidden.any():
        title += "\n× = hidden: the weight is exactly 0"
    figure.suptitle(title, fontsize=13)
    return figure


def heatmaps(figure, column, arrays, hidden, signed):
    """Draws one array in each of the axes of a column, with a common color scale below them."""
    if signed:
        limit = float(np.abs(arrays).max()) or 1.0
        scale = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        ticks = [-limit, 0, limit]
    else:
        limit = 1.0
        scale = {"cmap": "Blues", "vmin": 0, "vmax": 1}
        ticks = [0, 0.5, 1]
    for axes, array, cells in zip(column, arrays, hidden):
        image = axes.imshow(array, interpolation="nearest", aspect="auto", **scale)
        dark = np.abs(array) > 0.6 * limit
        mark(axes, cells & ~dark, "x")
        mark(axes, cells & dark, "x", "white")
    bar = figure.colorbar(image, ax=list(column), location="bottom", aspect=25, pad=0.02, shrink=0.9, ticks=ticks,
                          format="%.2g")
    bar.ax.tick_params(labelsize=10)
    first, *_, last = bar.ax.get_xticklabels()
    first.set_ha("left")                        # otherwise the labels of neighboring color bars overlap
    last.set_ha("right")


def block_gradient_norms(tape):
    """Returns (names, norms): the norm of dL/d(output) of every block on a tape, in the order of the forward pass.

    Calls without a backward pass are left out.
    """
    calls = [call for call in tape.calls if call.dy is not None
             and any(base.__name__ == "Block" for base in type(call.module).__mro__)]
    gradients = [call.dy[0] if isinstance(call.dy, tuple) else call.dy for call in calls]
    return [call.name for call in calls], [float(np.linalg.norm(gradient)) for gradient in gradients]


def gradient_norms(curves, ylabel="norm of the gradient at the block's output"):
    """Draws the norm of the gradient over the blocks of a model on a logarithmic axis.

    Parameters:
        curves : {title: norms, block 0 first}, or the pair (names, norms) that block_gradient_norms returns
        ylabel : label of the vertical axis
    """
    if isinstance(curves, tuple):
        curves = norms_by_stack(*curves)
    figure, axes = panel("block", ylabel)
    for (title, norms), line in zip(curves.items(), itertools.cycle(LINES)):
        axes.semilogy(range(len(norms)), norms, markersize=6, label=title, **line)
    longest = max(map(len, curves.values()))
    axes.set_xticks(range(0, longest, 1 + longest // 12))
    axes.tick_params(which="both", labelsize=11)
    bottom, top = axes.get_ylim()
    if top < 30 * bottom:                       # the powers of ten in this range are too few to label the axis
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
    axes.legend(fontsize=11)
    return figure


def norms_by_stack(names, norms):
    """{stack: norms of its blocks}, where the stack of "decoder.blocks.0" is "decoder.blocks"."""
    curves = {}
    for name, norm in zip(names, norms):
        stack = name.rpartition(".")[0] or "block"
        curves.setdefault(stack, []).append(norm)
    return curves


def xray(matrices, outputs=None, inputs=None):
    """Draws which inputs influence which outputs: the norm of the Jacobian for each pair of positions.

    Parameters:
        matrices : {title: array (T_out, T_in), not negative}; an entry that is exactly 0 stays white, with a dot
        outputs, inputs : tokens (or a string) for the ticks of the rows and columns, or {title: tokens} where they
            differ; None: positions
    """
    arrays = [np.asarray(matrix) for matrix in matrices.values()]
    positive = [array[array > 0] for array in arrays]
    reach = np.concatenate(positive if any(map(len, positive)) else [[1.0]])
    high = reach.max()
    low = max(reach.min(), 1e-6 * high)
    figure, grid = panels(arrays, isinstance(outputs, dict) or isinstance(inputs, dict))
    for axes, title, array in zip(grid.flat, matrices, arrays):
        image = axes.imshow(array, cmap="viridis_r", norm=LogNorm(low, high), interpolation="nearest", aspect="auto")
        mark(axes, array == 0, ".")
        rows = outputs[title] if isinstance(outputs, dict) else outputs
        columns = inputs[title] if isinstance(inputs, dict) else inputs
        label_tokens([axes], array.shape, rows, columns)
        axes.set_title(textwrap.fill(title, 23, break_on_hyphens=False), fontsize=12)
    for axes in grid.flat[len(arrays):]:
        axes.axis("off")
    figure.supxlabel("input position" if inputs is None else "input token", fontsize=12)
    figure.supylabel("output position" if outputs is None else "output token", fontsize=12)
    bar = figure.colorbar(image, ax=list(grid.flat), aspect=20, extend="min" if reach.min() < low else "neither")
    bar.set_label("norm of d output / d input\n(white with a dot: exactly 0)", fontsize=12)
    return figure


def panels(arrays, own_ticks):
    """A figure at most as wide as a slide, with a grid of axes for these arrays. The ticks are shared if possible."""
    height, width = (max(extent(array.shape[axis]) for array in arrays) for axis in (0, 1))
    lines = math.ceil(len(arrays) / min(4, max(1, 13 // width)))
    columns = math.ceil(len(arrays) / lines)
    figure = Figure(figsize=(columns * (width + 0.3) + 1.8, lines * (height + 0.6) + 0.7), layout="constrained")
    share = not own_ticks and len({array.shape for array in arrays}) == 1
    return figure, figure.subplots(lines, columns, squeeze=False, sharex=share, sharey=share)


def first_sequence(array):
    """(H, T, S), the first sequence of an array (B, H, T, S), (H, T, S) or (T, S)."""
    array = np.asarray(array)
    return array[None] if array.ndim == 2 else array[(0,) * (array.ndim - 3)]


def extent(count):
    """The inches that `count` cells take; a cell shrinks from a third to an eighth of an inch as they become more."""
    return max(2.2, min(0.34 * count, 2.6 + 0.075 * count))


def mark(axes, where, sign, color="0.3"):
    """Draws a mark in each of the cells where `where` is True."""
    rows, columns = np.nonzero(where)
    size = min(5, 72 * min(extent(n) / n for n in where.shape) / 6)
    axes.plot(columns, rows, sign, color=color, markersize=size, markeredgewidth=size / 5)


def label_tokens(grid, shape, rows, columns):
    """Writes the tokens at the ticks, in a size that fits the cells. Raises ValueError if their number is wrong."""
    for count, tokens in zip(shape, (rows, columns)):
        if tokens is not None and len(tokens) != count:
            raise ValueError(f"{len(tokens)} tokens {list(tokens)} for {count} positions; give one token for each")
    row_size, column_size = (min(10.5, 60 * extent(n) / n) for n in shape)
    for axes in grid:
        for axis, tokens, size in ((axes.yaxis, rows, row_size), (axes.xaxis, columns, column_size)):
            if tokens is None:
                axis.get_major_locator().set_params(integer=True)
            else:
                axis.set_ticks(range(len(tokens)), list(tokens), fontsize=size, parse_math=False)
        if columns is not None and max(map(len, columns)) > 1:
            axes.tick_params(axis="x", rotation=90)
