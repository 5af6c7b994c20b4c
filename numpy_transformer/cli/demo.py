"""numpy-transformer demo: the gradients proven, two models trained, the pictures drawn."""

import math
import time

import numpy as np

from .. import views
from ..checks import components
from ..data import CharTokenizer, Dates, TextWindows, builtin_text, read_text
from ..data.dates import BOS, EOS, PAD
from ..decoding import generate, greedy_decode
from ..layers import CrossEntropyLoss, SinusoidalPositionalEncoding, causal_mask, padding_mask
from ..models import CausalLanguageModel, EncoderDecoder
from ..training import AdamW, CosineSchedule, Trainer
from .gradcheck import check_components, table
from .parser import add_command, whole_number

LENGTH = 64                                     # the language model's context


def add(commands):
    parser = add_command(
        commands, "demo", run, help="check the gradients, train two models, draw the pictures (about two minutes)",
        description="Gradient-check every component, train a small language model on English prose and a small "
                    "encoder-decoder that reads dates, and draw what they attend to.")
    parser.add_argument("--text", metavar="FILE", help="UTF-8 text for the language model instead of the "
                                                       "language reference that Python carries")
    parser.add_argument("--figures", metavar="FOLDER", default="figures", help="where the pictures go")
    parser.add_argument("--seed", type=whole_number(0), default=1, help="of everything random")
    parser.add_argument("--lm-steps", type=whole_number(1), default=800, metavar="N",
                        help="training steps of the language model")
    parser.add_argument("--date-steps", type=whole_number(1), default=1200, metavar="N",
                        help="training steps of the date reader")


def run(arguments):
    started = time.perf_counter()
    folder = views.check_folder(arguments.figures)
    text = read_text(arguments.text) if arguments.text else builtin_text()
    tokens = CharTokenizer(text)
    windows = TextWindows(tokens.encode(text), LENGTH, batch_size=8, seed=arguments.seed)

    print(f"1. The gradients of {len(components.SAMPLES)} components and variants, against numbers")
    reports = check_components([], arguments.seed)
    print(table(reports))

    print(f"\n2. A language model on {len(text):,} characters of {arguments.text or 'the Python language reference'}")
    model, history = train_language_model(tokens, windows, arguments)
    sample(model, tokens, windows, arguments.seed)

    print("\n3. An encoder-decoder that reads dates")
    dates = Dates(batch_size=64, seed=arguments.seed)
    reader, date_history = train_date_reader(dates, arguments)
    read_dates(reader, dates, arguments.seed)

    print("\n4. Pictures")
    histories = {"Language model": history, "Date reader": date_history}
    for name, picture in draw(model, tokens, windows, reader, dates, histories):
        print(f"  {views.save(picture, folder, name)}")
    print(f"\nDone in {time.perf_counter() - started:.0f} seconds.")
    return 0 if all(report.ok for report in reports) else 1


def train_language_model(tokens, windows, arguments):
    """A decoder with the parts of LLaMA, trained; its history."""
    model = CausalLanguageModel(tokens.vocab_size, d_model=96, num_heads=4, num_layers=3, d_ff=256, max_len=LENGTH,
                                positions="rotary", norm_layer="rms", activation="swiglu", bias=False,
                                rng=np.random.default_rng([arguments.seed, 1]))
    print(f"{tokens.vocab_size} characters, {model.num_parameters():,} parameters, context {LENGTH}, "
          f"{arguments.lm_steps} steps")
    trainer = make_trainer(model, CrossEntropyLoss(), arguments.lm_steps, lr=5e-3, weight_decay=0.1)
    return model, fit(trainer, windows.batch, windows.validation(), arguments.lm_steps, "language model")


def train_date_reader(dates, arguments):
    """An encoder-decoder of the 2017 kind, trained; its history."""
    model = EncoderDecoder(dates.src_vocab, dates.tgt_vocab, d_model=64, num_heads=4, num_layers=1, d_ff=256,
                           dropout=0.0, max_len=dates.sources.shape[1], pad_id=PAD,
                           rng=np.random.default_rng([arguments.seed, 2]))
    print(f"{len(dates.training):,} dates to learn from, {len(dates.test):,} in {len(dates.held_out_years)} years held "
          f"out, {model.num_parameters():,} parameters, {arguments.date_steps} steps")
    print("held out:", *dates.held_out_years)
    criterion = CrossEntropyLoss(label_smoothing=0.1, ignore_id=PAD)
    other = 0.1 / dates.tgt_vocab
    right = 0.9 + other
    lowest = -right * math.log(right) - (dates.tgt_vocab - 1) * other * math.log(other)
    print(f"label smoothing 0.1: the best possible loss is the entropy of the smoothed target, {lowest:.3f}")
    trainer = make_trainer(model, criterion, arguments.date_steps, lr=3e-3, weight_decay=1.0)
    held_out = [dates.examples(dates.test[i::70]) for i in range(0, 70, 7)]
    return model, fit(trainer, dates.batch, held_out, arguments.date_steps, "dates")


def make_trainer(model, criterion, steps, lr, weight_decay):
    """AdamW with a cosine schedule and clipping; only matrices decay."""
    optimizer = AdamW(model.parameters(), lr, (0.9, 0.98), 1e-8, weight_decay, decay=lambda p: p.data.ndim > 1)
    schedule = CosineSchedule(optimizer, lr, lr / 20, min(100, steps // 10), steps)
    return Trainer(model, criterion, optimizer, schedule, clip=1.0)


def fit(trainer, batches, held_out, steps, title):
    """Train, and measure the loss on the held-out batches five times on the way."""
    def validation():
        trainer.model.eval()
        criterion = trainer.criterion.eval()
        total = count = 0
        for inputs, targets in held_out:
            total += float(criterion(trainer.model(*inputs), targets)) * criterion.count
            count += criterion.count
        trainer.model.train()
        criterion.train()
        return total / count

    return trainer.fit(batches, steps, validation, every=max(steps // 5, 1), title=title)


def sample(model, tokens, windows, seed):
    start = sentence(tokens, windows, LENGTH // 2)
    ids = generate(model.eval(), start, 300, temperature=0.8, rng=np.random.default_rng([seed, 3]))
    print(f"Given {tokens.decode(start)!r} it goes on:")
    print("\n".join("    " + line for line in tokens.decode(ids[len(start):]).splitlines()))


def read_dates(model, dates, seed, count=4000):
    """Print the exact match on dates of the held-out years, by written form, with examples."""
    rows = np.random.default_rng([seed, 4]).choice(dates.test, min(count, len(dates.test)), replace=False)
    answers = dates.targets[rows, 1:]
    read = greedy_decode(model.eval(), dates.sources[rows], BOS, EOS, answers.shape[1])
    right = (read == answers[:, :read.shape[1]]).all(1)
    for form in range(4):
        chosen = rows % 4 == form
        example = np.flatnonzero(chosen)[0]
        print(f"  {dates.texts[rows[example]]!r:34} -> {dates.decode(read[example])}   "
              f"exact match of this form {right[chosen].mean():.2%}")
    print(f"exact match on {len(rows):,} dates of the held-out years: {right.mean():.2%} (wanted: 99 % or better)")


def sentence(tokens, windows, length):
    """The ids of a piece of held-out text that begins with a word, if there is one."""
    text = tokens.decode(windows.held_out[:-length])
    start = max(text.find("The "), 0)
    return windows.held_out[start:start + length]


def readable(text):
    return text.replace(" ", "␣").replace("\n", "↵")


def draw(model, tokens, windows, reader, dates, histories):
    """(name, Figure) of every picture."""
    table = SinusoidalPositionalEncoding(128, max_len=50).table
    yield "positional_encoding_heatmap", views.positional_heatmap(table)
    yield "positional_encoding_waves", views.positional_waves(table)
    ids = np.array([5, 6, 7, 8, PAD, PAD])
    causal, padding = causal_mask(6)[0, 0], np.broadcast_to(padding_mask(ids)[0, 0], (6, 6))
    yield "masks", views.mask_pictures({"causal": causal, "padding (2 of 6)": padding, "both": causal & padding})
    start = sentence(tokens, windows, 24)
    model.eval()(start)
    letters = readable(tokens.decode(start))
    weights = [block.attention.weights for block in model.decoder.blocks]
    names = [f"layer {layer}, head {head}" for layer, heads in enumerate(weights) for head in range(len(heads))]
    yield "attention_heads", views.attention_heads(np.concatenate(weights), letters, letters, names=names,
                                                   title="Self-attention of the language model")
    row = dates.test[3]                         # "the ... of ...", the longest form
    source, target = dates.sources[row], dates.targets[row]
    source = source[source != PAD]
    reader.eval()(source, target[:-1])
    keys = f"^{readable(dates.texts[row])}$"    # begin and end
    queries = dates.decode(target[1:]) + "$"
    yield "cross_attention", views.attention_heads(
        reader.decoder.blocks[-1].cross_attention.weights, queries, keys,
        title="Cross-attention of the date reader: each character written (rows) and where it looks (columns)")
    yield "learning_curves", views.learning_curves(histories)
