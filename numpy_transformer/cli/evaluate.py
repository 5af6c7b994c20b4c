"""numpy-transformer evaluate, and info: what a trained model can do, and what is in its file."""

import math

import numpy as np

from ..data import PAD, Pairs, frame, limit_length, read_pairs, read_text
from ..data.text import side_by_side
from ..decoding.bleu import corpus_bleu, exact_match, tokenize
from ..layers import CrossEntropyLoss
from ..training.progress import Progress
from ..training.trainer import evaluate
from .generate import BATCH, add_beam, translate
from .parser import add_command, whole_number
from ..tasks import RECIPES
from ..tasks.text_to_text import by_task, read_all_tasks
from ..tasks.runs import TITLES, load_run


SEARCH = {"limit", "beam", "length_penalty"}
FITTING = {"lm": ({"text"}, "--text FILE"),                         # kind: its options, and what to say of them
           "seq2seq": ({"source", "target", *SEARCH}, "--source FILE and --target FILE, both"),
           "text2text": ({"data", *SEARCH}, "--data FILE.tsv")}


def add(commands):
    parser = add_command(commands, "evaluate", run_evaluate, help="measure a trained model on text it has not learned",
                         description="Loss and perplexity; for an encoder-decoder exact match and BLEU too; for a "
                                     "classifier which classes it confuses, for a tagger the scores of each type, for "
                                     "a masked model the words found. Without files it measures what the training "
                                     "held out, with the baseline of each.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train`")
    parser.add_argument("--text", metavar="FILE", help="text for a language model, all of it")
    parser.add_argument("--source", metavar="FILE", help="sentences for an encoder-decoder, a line each")
    parser.add_argument("--target", metavar="FILE", help="their translations, line by line")
    parser.add_argument("--data", nargs="+", metavar="PATH", help="what `train` takes under this name, for "
                                                                  "other kinds of model; of aclImdb its test")
    parser.add_argument("--limit", type=whole_number(1), metavar="N",
                        help="only N of the pairs, drawn at random (default: all)")
    add_beam(parser, beam=None, penalty=None)
    parser = add_command(commands, "info", run_info, help="what is in a trained model's file",
                         description="Print configuration, progress and parameters of a run.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train`")


def run_evaluate(arguments):
    run = load_run(arguments.file)
    kind, files = run.meta["kind"], (arguments.source, arguments.target)
    options = "text", "source", "target", "data", "limit", "beam", "length_penalty"
    named = {name for name in options if getattr(arguments, name) is not None}
    fits, remedy = FITTING.get(kind, ({"data"}, "--data PATH"))
    if not named <= fits or any(files) != all(files):
        extra = ", ".join(f"--{name.replace('_', '-')}" for name in options if name in named - fits)
        raise ValueError(f"{run.path!r} holds {TITLES[kind]}; {f'leave {extra} out, and ' if extra else ''}measure it on "
                         f"{remedy}, or without files")
    if kind == "lm":
        evaluate_language_model(run, arguments.text)
    elif SEARCH <= fits:
        evaluate_pairs(run, files if all(files) else None, arguments)
    elif arguments.data:
        print(*RECIPES[kind].measured(run, arguments.data), sep="\n")
    else:
        print(*recipe_of(run).results(run.model), sep="\n")


def evaluate_language_model(run, path):
    tokens = run.tokenizers[0]
    if path:
        text = read_text(path)
        windows = side_by_side(tokens.encode(text), run.settings["context"])
        what = f"{path!r}"
    else:
        windows = recipe_of(run).validation
        what = "the held-out tenth of the training text"
    count = sum(targets.size for _, targets in windows)
    loss = evaluate(run.model, CrossEntropyLoss(), tracked(windows, "evaluate"))
    print(f"{what}: {count:,} tokens in windows of {run.settings['context']}")
    print(f"loss {loss:.4f} nats per token, perplexity {perplexity(loss)}")


def evaluate_pairs(run, files, arguments):
    beam, penalty = arguments.beam or 1, 0.6 if arguments.length_penalty is None else arguments.length_penalty
    if files:
        pairs, report = read_pairs(*files)
        what = " and ".join(files)
    elif arguments.data:
        pairs, report = read_all_tasks(arguments.data)
        what = arguments.data[0]
    else:
        recipe = recipe_of(run)
        task = "tasks" if run.meta["kind"] == "text2text" else run.settings["task"]
        pairs, report, what = recipe.test, [], f"the {task} held out to test" if task else "those held out to validate"
    pairs, dropped = limit_length(pairs, *run.tokenizers, run.settings["max_len"])
    if arguments.limit and arguments.limit < len(pairs):
        chosen = np.random.default_rng(0).choice(len(pairs), arguments.limit, replace=False)
        pairs = [pairs[n] for n in sorted(chosen)]
    print(*report, *dropped, f"{len(pairs):,} pairs: {what}", sep="\n")
    batches = Pairs(pairs, *run.tokenizers, BATCH, 0).batches()
    loss = evaluate(run.model, CrossEntropyLoss(ignore_id=PAD), tracked(batches, "loss"))
    print(f"loss {loss:.4f} nats per token, perplexity {perplexity(loss)}", flush=True)
    sources, targets = zip(*pairs)
    framed = [frame(run.tokenizers[0], source) for source in sources]
    order = sorted(range(len(pairs)), key=lambda n: len(framed[n]))
    found = [""] * len(pairs)
    for rows in tracked([order[i:i + BATCH] for i in range(0, len(order), BATCH)], "translate"):
        for n, best in zip(rows, translate(run, [framed[n] for n in rows], beam, penalty)):
            found[n] = best[0][0]
    short = "" if any(len(tokenize(target)) >= 4 for target in targets) else " (0 by definition: no target has 4 words)"
    print(f"exact match {exact_match(found, targets):.2%}, BLEU {corpus_bleu(found, targets):.2f}{short}, "
          f"beam {beam}")
    if run.meta["kind"] == "text2text":
        print(*by_task(pairs, found), sep="\n")


def recipe_of(run):
    """The data with which the run was trained, which must still be there."""
    recipe = RECIPES[run.meta["kind"]](run.settings, run.tokenizers)
    if recipe.corpus != run.meta["corpus"]:
        raise ValueError(f"the texts are not those with which {run.path!r} was trained; restore them, or name others")
    return recipe


def tracked(batches, title):
    """The batches, with a progress bar."""
    with Progress(len(batches), title, "batch") as progress:
        for batch in batches:
            yield batch
            progress.advance()


def perplexity(loss):
    return f"{math.exp(loss):.4g}" if loss < 700 else "beyond 1e300"


def run_info(arguments):
    run = load_run(arguments.file)
    meta = run.meta
    print(f"{run.path}: {TITLES[meta['kind']]}")
    print(f"step {meta['step']:,} of {run.settings['steps']:,}, configuration {meta['config']}")
    if meta.get("averaged"):
        print(f"weights: the mean of {len(meta['averaged'])} saves, {meta['averaged'][0]} to {meta['averaged'][-1]}")
    elif meta.get("best"):
        watch = run.settings["watch"]
        print(f"weights: the best, of step {meta['best']['step']:,}, validation {watch} {meta['best'][watch]:.4f}")
    measured = run.arrays.get("history/validation", np.array([]))
    for step in np.flatnonzero(np.isfinite(measured))[-1:]:
        print(f"latest validation loss {measured[step]:.4f} at step {step + 1:,}")
    for side, tokens in zip(("source", "target") if len(run.tokenizers) > 1 else ("text",), run.tokenizers):
        print(f"tokens of the {side}: {tokens.to_json()['kind']}, {tokens.vocab_size:,}")
    print("\nsettings")
    width = max(map(len, run.settings))
    print("\n".join(f"  {name:<{width}}  {value}" for name, value in run.settings.items()))
    print("\nparameters")
    print(run.model.summary())
