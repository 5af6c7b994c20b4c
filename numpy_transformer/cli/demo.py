"""numpy-transformer demo: checks the gradients, trains two models and draws pictures of them."""

import math
import shutil
import time

import numpy as np

from ..checks import samples
from ..course.lessons.environment import FIGURES
from ..data import BOS, EOS, frame, pad, unframe
from ..decoding import generate, greedy_decode
from ..layers import SinusoidalPositionalEncoding
from ..tasks import LanguageModelTask, SequenceToSequenceTask
from .gradcheck import check_components, error_table
from .parser import add_command, whole_number
from .plot_examples import masks
from .plotted_run import visible_spaces
from .terminal import wrap

PAGE = 2                                        # megabytes of the arrays in the page of the language model


def add_to_parser(commands):
    parser = add_command(
        commands, "demo", run, help="check the gradients, train two models and draw pictures (about two minutes)",
        description="Checks the gradients of every component, trains a small language model on English prose and a small "
                    "encoder-decoder that converts dates, draws their attention weights and learning curves, and saves a "
                    "page on which one training step of the language model can be explored.")
    parser.add_argument("--text", metavar="FILE", help="UTF-8 text for the language model (default: the language "
                                                       "reference that is included in Python)")
    parser.add_argument("--figures", metavar="FOLDER", default=FIGURES,
                        help="folder for the pictures; the demo replaces pictures of earlier runs there")
    parser.add_argument("--seed", type=whole_number(0), default=1, help="seed of the weights, the data and the samples")
    parser.add_argument("--lm-steps", type=whole_number(1), default=800, metavar="N",
                        help="training steps of the language model")
    parser.add_argument("--date-steps", type=whole_number(1), default=1200, metavar="N",
                        help="training steps of the encoder-decoder")


def run(arguments):
    started = time.perf_counter()
    from .. import views  # matplotlib is slow to import
    from ..explorer.explorer import check_page

    folder = views.check_folder(arguments.figures)
    page = check_page(folder / "explorer.html")
    text = LanguageModelTask(LanguageModelTask.default_settings(
        "small", text=arguments.text, steps=arguments.lm_steps, seed=arguments.seed))
    dates = SequenceToSequenceTask(SequenceToSequenceTask.default_settings(
        "dates", task="dates", steps=arguments.date_steps, seed=arguments.seed))
    print(wrap(f"1. Gradient checks of {len(samples.SAMPLES)} components and variants"))
    reports = check_components([], arguments.seed)
    print(error_table(reports))

    print("\n2. A language model")
    model, history = train(text, "language model")
    sample(model, text, arguments.seed)

    print("\n3. An encoder-decoder that converts dates")
    print(wrap(f"held-out years: {' '.join(map(str, dates.pairs.held_out_years))}"))
    describe_smoothing(dates)
    reader, date_history = train(dates, "dates")
    read_dates(reader, dates.pairs, arguments.seed)

    print("\n4. Pictures")
    histories = {"Language model": history, "Encoder-decoder for dates": date_history}
    for name, picture in draw_pictures(views, model, text, reader, dates.pairs, histories):
        print(f"  {views.save(picture, folder, name)}")

    print("\n5. A training step")
    save_page(model, text, page)
    print(wrap(f"{page} shows one training step of the language model, forward and backward, down to every number: open it "
               "in a browser."))
    print(f"\nDone in {time.perf_counter() - started:.0f} seconds.")
    if shutil.which("numpy-transformer") is None:
        print(wrap("Type `source .venv/bin/activate` (on Windows, `.venv\\Scripts\\activate`) before the next command."))
    print("To go on: numpy-transformer lesson 00 --step")
    return 0 if all(report.ok for report in reports) else 1


def describe_smoothing(task):
    """Prints the lowest loss that label smoothing allows: the entropy of the smoothed target."""
    size = task.model_config()["tgt_vocab"]
    smoothing = task.settings["label_smoothing"]
    other = smoothing / size
    right = 1 - smoothing + other
    lowest = -right * math.log(right) - (size - 1) * other * math.log(other)
    print(wrap(f"With label smoothing {smoothing}, the lowest possible loss is {lowest:.3f}, the entropy of the smoothed "
               "target."))


def train(task, title):
    """Returns the trained model of a task and the history of its training."""
    print(wrap(task.description))
    model, steps = task.make_model(), task.settings["steps"]
    print(f"{model.num_parameters():,} parameters, {steps:,} steps")
    trainer = task.make_trainer(model)
    return model, trainer.fit(task.batches, steps, task.validation, max(steps // 5, 1), title=title)


def sample(model, text, seed):
    """Prints how the language model continues a piece of held-out text."""
    tokens = text.tokenizers[0]
    start = held_out_ids(text, model.max_len // 2)
    ids = generate(model.eval(), start, 300, temperature=0.8, rng=np.random.default_rng([seed, 3]))
    print(wrap(f"The model continues the prompt {tokens.decode(start)!r}:"))
    print(wrap(tokens.decode(ids[len(start):]), indent="    "))


def read_dates(model, dates, seed, count=4000):
    """Prints the exact match on dates of the held-out years, for each written form, with an example."""
    source_tokens, target_tokens = dates.tokenizers()
    rows = np.random.default_rng([seed, 4]).choice(len(dates.test), min(count, len(dates.test)), replace=False)
    sources, answers = zip(*[dates.test[row] for row in rows])
    ids = pad([frame(source_tokens, source) for source in sources])
    longest = max(map(len, answers)) + 1        # and the end token
    read = [unframe(target_tokens, row) for row in greedy_decode(model.eval(), ids, BOS, EOS, longest)]
    right = np.array(read) == np.array(answers)
    print(wrap("one date of each written form, the model's output, and the exact match on dates of that form:"))
    for form in range(4):
        chosen = rows % 4 == form
        example = np.flatnonzero(chosen)[0]
        print(f"  {sources[example]!r:34} -> {read[example]}  {right[chosen].mean():7.2%}")
    print(wrap(f"exact match on {len(rows):,} dates of the held-out years: {right.mean():.2%} (expected: at least 99%)"))


def held_out_ids(text, length):
    """The ids of a piece of held-out text that begins with "The ", if this occurs there."""
    held_out = text.windows.held_out
    start = max(text.tokenizers[0].decode(held_out[:-length]).find("The "), 0)
    return held_out[start:start + length]


def save_page(model, text, path):
    """Saves a page that shows a training step of the language model on a piece of held-out text."""
    from ..explorer.examples import LanguageModelExample
    from ..explorer.explorer import Explorer
    from ..explorer.session import Session

    tokens = text.tokenizers[0]
    example = LanguageModelExample(model, [tokens], tokens.decode(held_out_ids(text, 12)), title="the language model")
    Explorer(Session(example)).save(path, megabytes=PAGE)


def draw_pictures(views, model, text, reader, dates, histories):
    """Yields (name, Figure) of every picture."""
    table = SinusoidalPositionalEncoding(128, max_len=50).table
    yield "positional_encoding_heatmap", views.positional_heatmap(table)
    yield "positional_encoding_waves", views.positional_waves(table)
    yield "masks", views.mask_pictures(masks(6, padded=2))
    start = held_out_ids(text, 24)
    model.eval()(start)
    letters = visible_spaces(text.tokenizers[0].decode(start))
    weights = [block.attention.weights for block in model.decoder.blocks]
    names = [f"block {block}, head {head}" for block, heads in enumerate(weights) for head in range(len(heads))]
    yield "attention_heads", views.attention_heads(np.concatenate(weights), letters, letters, names=names,
                                                   title="Self-attention weights of the language model")
    text, answer = dates.test[3]                # "the ... of ...", the longest form
    source_tokens, target_tokens = dates.tokenizers()
    reader.eval()(frame(source_tokens, text), frame(target_tokens, answer)[:-1])
    keys, predicted = f"^{visible_spaces(text)}$", f"{answer}$"               # ^ and $ mark the begin and end tokens
    yield "cross_attention", views.attention_heads(
        reader.decoder.blocks[-1].cross_attention.weights, predicted, keys,
        title="Cross-attention weights of the encoder-decoder (rows: predicted tokens, columns: source tokens)",
        query_label="predicted token")
    yield "learning_curves", views.learning_curves(histories)
