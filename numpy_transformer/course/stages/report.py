"""What the page of a student's Transformer shows, computed by the student's program and measured beside the library."""

import ast
import time
from dataclasses import dataclass, field

import numpy as np

from ...layers import CrossEntropyLoss
from ...training import AdamW, clip_grad_norm
from . import trained
from .drivers import parameters_of
from .files import STAGE_FILES
from .package import PackageLanguageModel
from .progress import check_in

SEEDS, TEMPERATURE, TOP_K, TOKENS = (0, 1, 2), 0.7, 20, 100
TIMED = 20                                      # steps of each program


@dataclass
class Report:
    """Attributes:
        states : {stage: state}
        results : {stage: StageResult} of the stages that have a file and are begun
        lines, files : of the student's code
        losses : array, of the training on stories
        weights : number of weights
        samples : {seed: text}
        tokens, attention : the tokens of a text, and the weights (num_layers, num_heads, T, T) with which they attend
        milliseconds : {"yours": ..., "library": ...} of a step
    """

    states: dict
    results: dict = field(default_factory=dict)
    lines: int = 0
    files: int = 0
    losses: np.ndarray = None
    weights: int = 0
    samples: dict = field(default_factory=dict)
    tokens: tuple = ()
    attention: np.ndarray = None
    milliseconds: dict = field(default_factory=dict)


def checked(book, seconds, advance):
    """Checks all stages that are begun. Returns {stage: StageResult}; calls advance(stage) after each."""
    results = {}
    for stage, state in book.states().items():
        if state not in ("missing", "empty"):
            results[stage] = check_in(book, stage, seconds=seconds)
            advance(stage)
    return results


def describe_program(report, program, files, mine, folder, steps, progress):
    """Adds what a program that is `running` shows: how it learns, what it writes, what it attends to, how long it takes."""
    own = [name for name in files if name not in STAGE_FILES or STAGE_FILES[name] in mine]
    report.files, report.lines = len(own), sum(code_lines(files[name]) for name in own)
    result = trained.trained(program, files, folder, steps=steps, progress=progress)
    report.losses, report.weights = result.losses, sum(p.data.size for p in parameters_of(result.model).values())
    prompt = result.tokenizer.encode("Once upon a time").tolist()
    for seed in SEEDS:
        ids = program.generate(result.model, list(prompt), TOKENS, TEMPERATURE, TOP_K, np.random.default_rng(seed))
        report.samples[seed] = result.tokenizer.decode(ids)
    first = result.tokenizer.encode(report.samples[0])[:18]
    result.model.forward(first)
    report.tokens = tuple(result.tokenizer.decode([i]).strip() or "\n" for i in first)
    report.attention = np.array([block.attention.attention.weights for block in result.model.blocks])
    report.milliseconds = step_times(program)


def code_lines(content):
    """Returns the number of lines of a file without comments, docstrings and empty lines."""
    lines, hidden = content.decode("utf-8", "replace").splitlines(), set()
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            hidden |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in hidden for n, line in enumerate(lines, 1))


def step_times(program):
    """Returns the median milliseconds of a training step of a program, and of the library's with the same sizes."""
    model, tokenizer, loss, batches = trained.on_stories(program, TIMED + 1)
    optimizer = program.AdamW(parameters_of(model).values())
    sizes = tokenizer.vocab_size, trained.LONGEST, trained.WIDTH, trained.HEADS, trained.INNER, trained.LAYERS, 0
    library, criterion = PackageLanguageModel(lambda module: module, *sizes)._model, CrossEntropyLoss()
    steps = AdamW(library.parameters())

    def step_of_library(inputs, targets):
        library.zero_grad()
        criterion(library(inputs), targets)
        library.backward(criterion.backward())
        clip_grad_norm(library.parameters(), 1.0)
        steps.step()

    both = {"yours": lambda *batch: program.train(model, loss, optimizer, [batch], lambda n: 1e-3),
            "library": step_of_library}
    seconds = {name: [] for name in both}
    for batch in zip(*batches):
        for name, step in both.items():
            start = time.perf_counter()
            step(*batch)
            seconds[name].append(time.perf_counter() - start)
    return {name: 1000 * float(np.median(values[1:])) for name, values in seconds.items()}
