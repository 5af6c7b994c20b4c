"""Lockstep: forward and backward of a small model side by side, number by number, with finite differences."""

import inspect
import itertools

import numpy as np

from ..layers import CrossEntropyLoss, Dropout
from ..models import CausalLanguageModel, EncoderDecoder, TokenClassifier
from ..module import Module, is_parameter
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
    """(what it is about, WithLoss, inputs) of a kind of model: 3 tokens, width 4, weights easy to write down."""
    rng = KINDS[kind]
    if kind == "encoder":
        text = "the cat sat -> determiner noun verb (0 1 2)"
        model = TokenClassifier(4, num_classes=3, max_len=3, norm="pre", **SIZES, rng=rng)
        inputs = [[1, 2, 3]], [[0, 1, 2]]
    elif kind == "decoder":
        text = "the cat sat (1 2 3) -> cat sat down (2 3 4)"
        model = CausalLanguageModel(5, max_len=3, positions="sinusoidal", activation="relu", tie_weights=False,
                                    **SIZES, rng=rng)
        inputs = [[1, 2, 3]], [[2, 3, 4]]
    else:
        text = "the cat sat (1 2 3), <s> chat assis (1 2 3) -> chat assis </s> (2 3 4)"
        model = EncoderDecoder(4, 5, max_len=3, **SIZES, rng=rng)
        inputs = [[1, 2, 3]], [[1, 2, 3]], [[2, 3, 4]]
    whole, rng = WithLoss(model).astype(np.float64).eval(remember=True), np.random.default_rng(rng)
    for parameter in whole.parameters():
        parameter.data = rng.choice([-0.5, 0.5, 1], parameter.data.shape)
    return text, whole, [np.array(ids[0]) for ids in inputs]


def trace(whole, inputs, only="", width=120):
    """Yield (text, error) of every call of every component whose name or class contains `only`, in forward's order.

    error is the largest difference between backward's gradients and finite differences of the loss. Each array has its
    gradient and the differences beside it, or below it where they do not fit into `width`.
    """
    whole.eval(remember=True).zero_grad()
    with record(whole) as tape:
        whole(*inputs)
        whole.backward(1.0)
    whole.eval()
    shown = set()
    for number, call in enumerate(tape.calls):
        name = call.name.removeprefix("model.")
        known = f"{name}: {type(call.module).__name__}".lower()
        if isinstance(call.module, (Dropout, WithLoss)) or only.lower() not in known:
            continue
        text, error = [heading(name, call.module)], 0.0
        composite = tape.calls[min(number + 1, len(tape.calls) - 1)].depth > call.depth
        for title, value, gradient, loss in arrays(call, number, whole, inputs, composite):
            if gradient is None:
                text.append(table([title], [value], width))
            elif id(value) not in shown:
                numeric = differences(loss, value.shape)
                text.append(table([title, f"d{title}", f"d{title} by differences"], [value, gradient, numeric], width))
                error = np.maximum(error, np.abs(gradient - numeric).max())        # a NaN stays one
        shown.update(id(parameter.data) for parameter in vars(call.module).values() if is_parameter(parameter))
        yield "\n".join(text), error


def arrays(call, number, whole, inputs, composite):
    """(title, value, gradient or None, loss of at and step) of a call's inputs and parameters, a leaf's output too."""
    gradients = iter(call.gradients)
    for n, (title, x) in enumerate(zip(input_names(call), call.inputs)):
        if isinstance(x, np.ndarray):
            gradient = next(gradients) if x.dtype.kind == "f" else None
            yield title, x, gradient, lambda at, step, n=n: moved_call(whole, inputs, number, n, at, step)
    for title, parameter in vars(call.module).items():
        if is_parameter(parameter):
            yield title, parameter.data, parameter.grad, lambda at, step, p=parameter: moved(whole, inputs, p, at, step)
    if not composite:
        yield ("y" if np.ndim(call.output) else "loss", np.asarray(call.output), np.asarray(call.dy),
               lambda at, step: moved_call(whole, inputs, number, None, at, step))


def input_names(call):
    """Those of forward's signature; behind a star come the memory and the masks."""
    own = [p for p in inspect.signature(type(call.module).forward).parameters.values()][1:]
    names = [p.name for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
    return names + ["memory" if np.asarray(x).dtype.kind == "f" else "mask" for x in call.inputs[len(names):]]


def moved_call(whole, inputs, number, argument, at, step):
    """The loss, with one entry moved of an argument (None: the output) of the call with this number."""
    numbers = itertools.count()

    def change(call):
        before = call.output is None
        call.number = next(numbers) if before else call.number
        if call.number == number and before == (argument is not None):
            x = np.array(call.inputs[argument] if before else call.output)
            x[at] += step
            if before:
                call.inputs = (*call.inputs[:argument], x, *call.inputs[argument + 1:])
            else:
                call.output = x

    with record(whole, change):
        return whole(*inputs)


def moved(whole, inputs, parameter, at, step):
    """The loss, with one entry of a parameter moved."""
    start = parameter.data[at]
    parameter.data[at] = start + step
    loss = whole(*inputs)
    parameter.data[at] = start
    return loss


def differences(loss, shape):
    """Central differences of loss(at, step), entry by entry."""
    gradient = np.zeros(shape)
    for at in np.ndindex(shape):
        gradient[at] = (loss(at, STEP) - loss(at, -STEP)) / (2 * STEP)
    return gradient


def heading(name, module):
    """Name and class, and the two formulas as the docstring has them."""
    lines = inspect.getdoc(type(module)).splitlines()
    backward = next((n for n, line in enumerate(lines) if line.startswith("Backward:")), None)
    end = next((n for n in range((backward or 0) + 1, len(lines)) if not lines[n].startswith(" ")), len(lines))
    formulas = [f"  forward   {lines[0]}"]
    if backward is not None:
        text = [line.strip() for line in [lines[backward].removeprefix("Backward:"), *lines[backward + 1:end]]]
        formulas += [("  backward  " if n == 0 else " " * 12) + line for n, line in enumerate(filter(None, text))]
    return "\n".join([f"\n{name or 'model'}: {type(module).__name__}", *formulas])


def table(titles, columns, width):
    """Arrays of one shape side by side, or below each other where the lines would be longer than width."""
    blocks = [[f"{title} {columns[0].shape}" if n == 0 else title, *rows(column)]
              for n, (title, column) in enumerate(zip(titles, columns))]
    widest = max(len(line) for block in blocks for line in block)
    if (widest + 3) * len(blocks) > width:
        return "\n".join("  " + line for block in blocks for line in block)
    return "\n".join("  " + " | ".join(f"{line:{widest}}" for line in lines).rstrip() for lines in zip(*blocks))


def rows(array):
    """A line for each row; an empty one where a leading axis goes on."""
    if array.ndim > 2:
        return [line for n, part in enumerate(array) for line in [""] * (n > 0) + rows(part)]
    return ["".join(number(x) for x in row) for row in np.atleast_2d(array)]


def number(x):
    return f"{round(x, 3) + 0.0:7.3f}" if isinstance(x, np.floating) else f"{int(x):4}"     # + 0.0: no -0.000
