"""Gradients on their way back: through a softmax, from block to block, and from an output to the inputs it depends on."""

import math

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

STYLES = ("C0o-", "C1s--", "C2^-.", "C4D:", "C5v-", "C7X--")


def attention_backward(call, queries=None, keys=None, title="The way back through the softmax of attention"):
    """Of the first of a batch, a row for each head: the weights, dL/dweights and dL/dscores; a cross: weight exactly 0.

    Parameters: call : what nt.record wrote of a Softmax: output and dy (B, H, T, S), (H, T, S) or (T, S)
        queries, keys : tokens (or a string) for the ticks
    Raises: ValueError if no backward answered the call.
    """
    if call.dy is None:
        raise ValueError(f"no backward answered the call of {call.name!r}, so there is no gradient to draw; "
                         "call model.backward inside the `with nt.record(model)`")
    rows = [one_sequence(array) for array in (call.output, call.dy, call.gradients[0])]
    heads, T, S = rows[0].shape
    width, height = (max(2.2, 0.34 * n) for n in (S, T))
    figure = Figure(figsize=(3 * width + 1.6, heads * (height + 0.35) + 2.0), layout="constrained")
    grid = figure.subplots(heads, 3, squeeze=False, sharex=True, sharey=True)
    for column, (name, arrays) in enumerate(zip(("weights", "dL/dweights", "dL/dscores"), rows)):
        limit = float(np.abs(arrays).max()) or 1.0
        scale = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit} if column else {"cmap": "Blues", "vmin": 0, "vmax": 1}
        for axes, array, weights in zip(grid[:, column], arrays, rows[0]):
            image = axes.imshow(array, interpolation="nearest", aspect="auto", **scale)
            mark(axes, weights == 0)
        bar = figure.colorbar(image, ax=list(grid[:, column]), location="bottom", fraction=0.05, aspect=25,
                              ticks=[-limit, 0, limit] if column else [0, 0.5, 1], format="%.2g")
        bar.ax.tick_params(labelsize=10)
        grid[0, column].set_title(name, fontsize=12)
        grid[-1, column].set_xlabel("key", fontsize=11)
    for head, axes in enumerate(grid[:, 0]):
        axes.set_ylabel(f"head {head}\nquery", fontsize=11)
    label_tokens(grid.flat, queries, keys)
    figure.suptitle(title + ("\n× hidden: weight exactly 0" if (rows[0] == 0).any() else ""), fontsize=13)
    return figure


def block_gradient_norms(tape):
    """(names, norms): |dL/d(output)| of every EncoderBlock and DecoderBlock on a tape, in the order of the forward.

    Calls that no backward answered are left out.
    """
    calls = [call for call in tape.calls if call.dy is not None
             and any(known.__name__ == "EncoderBlock" for known in type(call.module).__mro__)]
    arrays = [call.dy[0] if isinstance(call.dy, tuple) else call.dy for call in calls]
    return [call.name for call in calls], [float(np.linalg.norm(array)) for array in arrays]


def gradient_norms(curves, ylabel="norm of the gradient at the block's output"):
    """curves {title: norms, of layer 1 first}: over the layers, on a logarithmic axis."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for n, (title, norms) in enumerate(curves.items()):
        axes.semilogy(range(1, len(norms) + 1), norms, STYLES[n % len(STYLES)], markersize=6, label=title)
    axes.set_xlabel("layer", fontsize=12)
    axes.set_ylabel(ylabel, fontsize=12)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.tick_params(labelsize=11)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=11)
    return figure


def xray(matrices, outputs=None, inputs=None):
    """What reaches what: of every output position and every input position the norm of their Jacobian.

    Parameters: matrices : {title: (T_out, T_in), not negative}; an entry that is exactly 0 stays white, with a dot
        outputs, inputs : tokens (or a string) for the ticks
    """
    arrays = [np.asarray(matrix) for matrix in matrices.values()]
    reach = np.concatenate([array[array > 0] for array in arrays]) if any((a > 0).any() for a in arrays) else np.ones(1)
    low, high = max(reach.min(), 1e-6 * reach.max()), reach.max()
    columns, lines = min(len(arrays), 4), math.ceil(len(arrays) / 4)
    width, height = (max(2.2, 0.3 * size) for size in arrays[0].shape[::-1])
    figure = Figure(figsize=(columns * (width + 0.25) + 1.7, lines * (height + 0.5) + 0.7), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes, title, array in zip(grid.flat, matrices, arrays):
        image = axes.imshow(array, cmap="viridis_r", norm=LogNorm(low, high), interpolation="nearest", aspect="auto")
        mark(axes, array == 0, ".")
        axes.set_title(title, fontsize=12)
    for axes in grid.flat[len(arrays):]:
        axes.axis("off")
    label_tokens(grid.flat, outputs, inputs)
    figure.supxlabel("input", fontsize=12)
    figure.supylabel("output", fontsize=12)
    bar = figure.colorbar(image, ax=list(grid.flat), fraction=0.05, extend="min" if reach.min() < low else "neither")
    bar.set_label("norm of d output / d input\n(a dot: exactly 0)", fontsize=11)
    return figure


def one_sequence(array):
    """(H, T, S) of (B, H, T, S), (H, T, S) or (T, S)."""
    array = np.asarray(array)
    return array[None] if array.ndim == 2 else array[(0,) * (array.ndim - 3)]


def mark(axes, where, sign="x"):
    """A mark in each of these cells."""
    rows, columns = np.nonzero(where)
    axes.plot(columns, rows, sign, color="0.5", markersize=4, markeredgewidth=0.9)


def label_tokens(grid, rows, columns):
    for axes in grid:
        axes.tick_params(labelsize=10)
        if columns is not None:
            axes.set_xticks(range(len(columns)), list(columns), rotation=90 if max(map(len, columns)) > 2 else 0)
        if rows is not None:
            axes.set_yticks(range(len(rows)), list(rows))
