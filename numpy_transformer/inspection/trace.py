"""Traces forward and backward of a small model side by side, with every gradient next to its finite differences."""

import inspect
import itertools
import textwrap

import numpy as np

from ..layers import CrossEntropyLoss, Dropout, SinusoidalPositionalEncoding
from ..models import CausalLanguageModel, EncoderDecoder, TokenClassifier
from ..module import Module, is_frozen, is_parameter
from .recorder import record

STEP = 1e-5
KINDS = {"encoder": 235, "decoder": 136, "encoder-decoder": 162}     # with seeds whose gradients are not tiny
SIZES = {"d_model": 4, "num_heads": 2, "num_layers": 1, "d_ff": 5, "dropout": 0.0}


class WithLoss(Module):
    """A model and its loss as one module, whose output is the loss."""

    def __init__(self, model):
        self.model, self.loss = model, CrossEntropyLoss()

    def forward(self, *inputs):
        return self.loss(self.model(*inputs[:-1]), inputs[-1])

    def backward(self, dloss):
        self.model.backward(self.loss.backward(dloss))


def example(kind):
    """Returns (description of the task, WithLoss, inputs) for a kind of model.

    There are 3 tokens of width 4, and every weight is 0.5 or 1 with either sign, so that one can compute by hand.
    """
    seed = KINDS[kind]
    if kind == "encoder":
        text = "the cat sat -> determiner noun verb (0 1 2)"
        model = TokenClassifier(4, num_classes=3, max_len=3, norm="pre", **SIZES, rng=seed)
        inputs = [[1, 2, 3], [0, 1, 2]]
    elif kind == "decoder":
        text = "the cat sat (1 2 3) -> cat sat down (2 3 4)"
        model = CausalLanguageModel(5, max_len=3, positions="sinusoidal", activation="relu", tie_weights=False,
                                    **SIZES, rng=seed)
        inputs = [[1, 2, 3], [2, 3, 4]]
    else:
        text = "the cat sat (1 2 3), <s> chat assis (1 2 3) -> chat assis </s> (2 3 4)"
        model = EncoderDecoder(4, 5, max_len=3, **SIZES, rng=seed)
        model.target_positions = SinusoidalPositionalEncoding(SIZES["d_model"], 3)      # one of its own, to be named
        inputs = [[1, 2, 3], [1, 2, 3], [2, 3, 4]]
    whole = WithLoss(model).astype(np.float64).eval(remember=True)
    rng = np.random.default_rng(seed)
    for parameter in whole.parameters():
        parameter.data = rng.choice([-0.5, 0.5, 1], parameter.data.shape)
    return text, whole, [np.array(ids) for ids in inputs]


def trace(whole, inputs, only="", width=120):
    """Yields (text, error) for every call of every component whose name or class contains `only`, in forward's order.

    error is the largest difference between backward's gradients and finite differences of the loss. The text shows
    each array with its gradient and its finite differences side by side, or one below the other where `width` columns
    are not enough.
    """
    whole.eval(remember=True).zero_grad()
    with record(whole) as tape:
        whole(*inputs)
        whole.backward(1.0)
    whole.eval()
    shown = set()                               # parameters, which are shown at their component's first call
    for number, call in enumerate(tape.calls):
        name = call.name.removeprefix("model.")
        title = f"{name}: {type(call.module).__name__}"
        if isinstance(call.module, (Dropout, WithLoss)) or only.lower() not in title.lower():
            continue
        text = [heading(name, call.module, width)]
        error = 0.0
        next_call = tape.calls[min(number + 1, len(tape.calls) - 1)]
        is_composite = next_call.depth > call.depth
        for title, value, gradient, loss in arrays(call, number, whole, inputs, is_composite):
            if gradient is None:
                text.append(side_by_side([title], [value], width))
            elif id(value) not in shown:
                numeric = differences(loss, value.shape)
                text.append(side_by_side([title, f"d{title}", f"d{title} by differences"], [value, gradient, numeric],
                                         width))
                error = np.maximum(error, np.abs(gradient - numeric).max())        # np.maximum keeps a NaN
        shown.update(id(parameter.data) for parameter in vars(call.module).values() if is_parameter(parameter))
        yield "\n".join(text), error


def arrays(call, number, whole, inputs, is_composite):
    """Yields (title, value, gradient or None, loss) for a call's inputs, its parameters and, in a leaf, its output.

    loss(index, step) is the loss after that entry of the array has been increased by step.
    """
    gradients = iter(call.gradients)
    for n, (title, x) in enumerate(zip(input_names(call), call.inputs)):
        if isinstance(x, np.ndarray):
            gradient = next(gradients) if x.dtype.kind == "f" else None
            yield title, x, gradient, lambda at, step, n=n: loss_with_changed_call(whole, inputs, number, n, at, step)
    for title, parameter in vars(call.module).items():
        if is_parameter(parameter):
            yield (title, parameter.data, None if is_frozen(parameter) else parameter.grad,
                   lambda at, step, p=parameter: loss_with_changed_parameter(whole, inputs, p, at, step))
    if not is_composite:
        yield ("y" if np.ndim(call.output) else "loss", np.asarray(call.output), np.asarray(call.dy),
               lambda at, step: loss_with_changed_call(whole, inputs, number, None, at, step))


def input_names(call):
    """Returns the names in forward's signature; inputs that it takes with a star are the memory and masks."""
    own = [p for p in inspect.signature(type(call.module).forward).parameters.values()][1:]
    names = [p.name for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
    return names + ["memory" if np.asarray(x).dtype.kind == "f" else "mask" for x in call.inputs[len(names):]]


def loss_with_changed_call(whole, inputs, number, argument, at, step):
    """Returns the loss with one entry of one call's argument increased by step; argument None is its output."""
    numbers = itertools.count()

    def change(call):
        if call.output is None:                 # before forward
            call.number = next(numbers)
            if call.number == number and argument is not None:
                x = increased(call.inputs[argument], at, step)
                call.inputs = (*call.inputs[:argument], x, *call.inputs[argument + 1:])
        elif call.number == number and argument is None:
            call.output = increased(call.output, at, step)

    with record(whole, change):
        return whole(*inputs)


def increased(x, at, step):
    x = np.array(x)
    x[at] += step
    return x


def loss_with_changed_parameter(whole, inputs, parameter, at, step):
    """Returns the loss with one entry of a parameter increased by step."""
    start = parameter.data[at]
    parameter.data[at] = start + step
    loss = whole(*inputs)
    parameter.data[at] = start
    return loss


def differences(loss, shape):
    """Returns central differences of loss(index, step) for every entry of an array of this shape."""
    gradient = np.zeros(shape)
    for at in np.ndindex(shape):
        gradient[at] = (loss(at, STEP) - loss(at, -STEP)) / (2 * STEP)
    return gradient


def heading(name, module, width):
    """Returns the component's name and class, and the formulas of forward and backward from its docstring."""
    forward, *lines = inspect.getdoc(type(module)).splitlines()
    title = textwrap.wrap(f"{name or 'model'}: {type(module).__name__}", width, subsequent_indent="    ")
    text = ["", *title, *wrapped("  forward   ", forward, width)]
    backward = list(itertools.dropwhile(lambda line: not line.startswith("Backward:"), lines))
    if backward:
        continued = itertools.takewhile(lambda line: line.startswith(" "), backward[1:])
        formulas = [backward[0].removeprefix("Backward:"), *continued]
        label = "  backward  "
        for formula in filter(None, map(str.strip, formulas)):
            text += wrapped(label, formula, width)
            label = " " * len(label)
    return "\n".join(text)


def wrapped(label, text, width):
    """Returns text as lines of at most `width` columns, with the label before the first one."""
    return textwrap.wrap(text, width, initial_indent=label, subsequent_indent=" " * len(label),
                         break_long_words=False, break_on_hyphens=False)


def side_by_side(titles, columns, width):
    """Returns arrays of one shape side by side, or one below the other if lines would be longer than width."""
    blocks = [[title, *row_lines(column)] for title, column in zip(titles, columns)]
    blocks[0][0] += f" {columns[0].shape}"
    widest = max(len(line) for block in blocks for line in block)
    if (widest + 3) * len(blocks) > width:
        return "\n".join("  " + line for block in blocks for line in block)
    return "\n".join("  " + " | ".join(f"{line:{widest}}" for line in lines).rstrip() for lines in zip(*blocks))


def row_lines(array):
    """Returns a line for each row of the array, with an empty line between matrices."""
    if array.ndim <= 2:
        return ["".join(number_text(x) for x in row) for row in np.atleast_2d(array)]
    lines = []
    for part in array:
        lines += [""] if lines else []
        lines += row_lines(part)
    return lines


def number_text(x):
    return f"{round(x, 3) + 0.0:7.3f}" if isinstance(x, np.floating) else f"{int(x):4}"     # + 0.0: no -0.000
