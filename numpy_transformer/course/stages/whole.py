"""The whole model: it is trained for some steps with the student's stages in it, and by the library on the same batches."""

import functools
from dataclasses import dataclass

import numpy as np

from ..exercises.cases import Case
from ..sandbox import ProgramTask
from . import corpus, drivers, package
from .definition import StagePart
from .drivers import whole_model

STEPS, WARMUP = 50, 50
TOLERANCE = 1e-10                               # of the losses, in float64
TRANSLATION = 12                                # the stage whose model translates


@dataclass(frozen=True)
class Curve:
    """What a training of the whole model gave.

    Attributes:
        losses : array, one loss a step; empty if the program ended with an error
        ids : array, what the model writes afterwards
        error : the report of the sandbox, {} without an error
    """

    losses: np.ndarray
    ids: np.ndarray
    error: dict


@dataclass(frozen=True)
class Difference:
    """How a curve differs from the library's: at which step (from 1 on), in which result, by how much."""

    what: str                                   # "error", "losses" or "text"
    step: int = 0
    size: float = 0.0


@functools.cache
def experiment(stage):
    """Returns (driver, Case, the library's Curve) of what is trained in a stage."""
    rng = np.random.default_rng(0)
    if stage < TRANSLATION:
        text, tokenizer = corpus.stories(100)
        inputs, targets = corpus.windows(np.array(tokenizer.encode(text)), 20, 8, STEPS, rng)
        V = tokenizer.vocab_size
        arrays = first_weights("LanguageModel", rng, V, 32, 24, 4, 48, 2)
        case = Case("", (arrays, 4, 2, inputs, targets, WARMUP, inputs[0, 0, :4].tolist(), 12))
        return whole_model.training, case, Curve(*package.training(*case.inputs), {})
    sources, inputs, targets, letters = corpus.date_batches(8, STEPS, rng)
    longest = max(sources.shape[-1], inputs.shape[-1])
    arrays = first_weights("EncoderDecoder", rng, corpus.EOS + 1 + len(letters), longest, 24, 4, 48, 2)
    case = Case("", (arrays, 4, 2, sources, inputs, targets, WARMUP, corpus.BOS, corpus.EOS))
    return whole_model.training_to_translate, case, Curve(*package.training_to_translate(*case.inputs), {})


def first_weights(name, rng, *sizes):
    """Returns {name: array} of the initial weights of a model of the package in float64, none of whose biases is 0."""
    component = package.named()[name](*sizes, 0)
    return {name: rng.normal(1.0 if name.endswith("gamma") else 0.0, 0.1, parameter.data.shape)
            for name, parameter in drivers.parameters_of(component).items()}


def train_with(stage, files, execute):
    """Trains the model of a stage with these files, {name: bytes}. Returns a Curve.

    Parameters:
        execute : function (files, task) that returns the ProgramRun of a ProgramTask
    """
    driver, case, _ = experiment(stage.number)
    part = StagePart(f"{stage.number}.9", minutes=0, lines=0, solution=driver, stage=stage.number, drives=driver,
                     outputs=("losses", "text"))
    run = execute(files, ProgramTask(part, [case], stage.file))
    result = run.results[0]
    complete = len(result.outputs) == 2 and all(y is not None and y.ndim == 1 for y in result.outputs)
    if complete and "error" not in result.report:
        return Curve(*result.outputs, {})
    return Curve(np.zeros(0), np.zeros(0, int), {"ended": run.ended, **run.report, **result.report})


def difference(stage, curve):
    """Returns the Difference between a curve and the library's, or None if there is none."""
    _, _, expected = experiment(stage.number)
    if curve.losses.shape != expected.losses.shape or not np.isfinite(curve.losses).all():
        return Difference("error")
    differs = abs(curve.losses - expected.losses) > TOLERANCE * abs(expected.losses)
    if differs.any():
        step = int(differs.argmax())
        return Difference("losses", step + 1, apart(stage, curve))
    return None if np.array_equal(curve.ids, expected.ids) else Difference("text")


def apart(stage, curve):
    """Returns the largest difference between the losses of a curve and the library's, as far as both go; NaN if there is one."""
    _, _, expected = experiment(stage.number)
    count = min(len(curve.losses), len(expected.losses))
    return float(abs(curve.losses[:count] - expected.losses[:count]).max(initial=0))


def drawn(yours, expected, width=50, height=7):
    """Returns the lines of a drawing of two curves: * is yours, . the library's, and + both."""
    curves = [curve for curve in (expected, yours) if len(curve) and np.isfinite(curve).any()]
    low, high = min(map(np.nanmin, curves)), max(map(np.nanmax, curves))
    rows = [[" "] * width for _ in range(height)]
    for curve, mark in ((expected, "."), (yours, "*")):
        for column in range(width) if len(curve) else ():
            value = curve[round(column * (len(curve) - 1) / (width - 1))]
            if np.isfinite(value):
                row = rows[round((high - value) / max(high - low, 1e-9) * (height - 1))]
                row[column] = "+" if mark == "*" and row[column] == "." else mark
    labels = [f"{high:6.2f}", *[" " * 6] * (height - 2), f"{low:6.2f}"]
    return [f"{label} |{''.join(row).rstrip()}" for label, row in zip(labels, rows)]
