"""numpy-transformer evaluate: measures a trained model on held-out or new text."""

import math

import numpy as np

from ..data import Pairs, frame_source, limit_length, marks, read_pairs, read_prompt, read_text, token_name
from ..data.text import consecutive_windows
from ..decoding.bleu import corpus_bleu, exact_match, tokenize
from ..layers import CrossEntropyLoss
from ..tasks import TASKS
from ..tasks.runs import IMPORTED, SCRIPT, TITLES, load_run
from ..tasks.text_to_text import exact_match_by_task, read_all_tasks
from ..training.evaluation import evaluate
from ..training.progress import Progress
from .generate import BATCH, add_beam, translate
from .parser import add_command, option, whole_number
from .terminal import wrap

SEARCH = {"limit", "beam", "length_penalty"}
OPTIONS = {"lm": ({"text"}, "--text FILE"),                         # kind: its options, and how to give them
           "seq2seq": ({"source", "target", *SEARCH}, "--source FILE and --target FILE, both"),
           "text2text": ({"data", *SEARCH}, "--data FILE.tsv")}
OTHERS = {"data"}, "--data PATH"


def add_to_parser(commands):
    parser = add_command(commands, "evaluate", run_evaluate, help="measure a trained model on held-out or new text",
                         description="Print loss and perplexity; for an encoder-decoder also exact match and BLEU; for a "
                                     "classifier the confusion matrix, for a tagger the scores of each type of entity, "
                                     "for a masked language model its accuracy. Without files, the held-out data of the "
                                     "training run is used, and a baseline is shown.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train`")
    parser.add_argument("--text", metavar="FILE", help="text for a language model")
    parser.add_argument("--source", metavar="FILE", help="sentences for an encoder-decoder, one per line")
    parser.add_argument("--target", metavar="FILE", help="their translations, line by line")
    parser.add_argument("--data", nargs="+", metavar="PATH", help="for the other kinds of model: what `train --data` "
                                                                  "takes; of aclImdb the test set is used")
    parser.add_argument("--limit", type=whole_number(1), metavar="N",
                        help="use only N randomly chosen pairs (default: all)")
    add_beam(parser, beam=None, penalty=None)


def run_evaluate(arguments):
    run = load_run(arguments.file, *TASKS)
    check_options(run, arguments)
    if run.kind == "lm":
        evaluate_language_model(run, arguments.text)
    elif run.kind in ("seq2seq", "text2text"):
        evaluate_pairs(run, arguments)
    elif arguments.data:
        print(*TASKS[run.kind].evaluate_files(run, arguments.data), sep="\n")
    else:
        print(*training_task(run).results(run.model), sep="\n")


def check_options(run, arguments):
    """Raises ValueError for an option that this kind of model does not use, and for a source without its target."""
    names = "text", "source", "target", "data", "limit", "beam", "length_penalty"
    given = {name for name in names if getattr(arguments, name) is not None}
    allowed, usage = OPTIONS.get(run.kind, OTHERS)
    only_one_side = (arguments.source is None) != (arguments.target is None)
    if given <= allowed and not only_one_side:
        return
    extra = ", ".join(option(name) for name in names if name in given - allowed)
    remedy = f"leave {extra} out, and " if extra else ""
    raise ValueError(f"{run.path!r} holds {TITLES[run.kind]}; {remedy}evaluate it with {usage}, or without files")


def evaluate_language_model(run, path):
    tokens = run.tokenizers[0]
    if path:
        text = read_text(path)
        windows = consecutive_windows(read_prompt(tokens, text), run.settings["context"], tokens.vocab_size)
        what = f"{path!r}"
    else:
        windows = training_task(run).validation
        what = "the held-out tenth of the training text"
    count = sum(targets.size for _, targets in windows)
    loss = evaluate(run.model, CrossEntropyLoss(), tracked(windows, "evaluate"))
    print(f"{what}: {count:,} tokens in windows of {run.settings['context']}")
    begin = getattr(tokens, "begin", []) if path else []
    print(wrap(describe_context(begin, tokens, sum(len(batch) for _, batch in windows))))
    print(f"loss {loss:.4f} nats per token, perplexity {perplexity(loss)}")


def describe_context(begin, tokens, count):
    """A sentence on the tokens that are predicted from little or nothing: the first one of the text, and of each window."""
    first = f"The first token is predicted from {token_name(tokens, begin[-1])} alone" if begin else (
        "The first token is not counted, because nothing stands before it")
    windows = "" if count == 1 else "; a window does not see the one before it, so its first tokens have little context"
    return f"{first}{windows}."


def evaluate_pairs(run, arguments):
    beam = arguments.beam or 1
    penalty = 0.6 if arguments.length_penalty is None else arguments.length_penalty
    pairs, report, what = pairs_to_evaluate(run, arguments)
    pairs, dropped = limit_length(pairs, *run.tokenizers, run.settings["max_len"])
    if arguments.limit and arguments.limit < len(pairs):
        chosen = np.random.default_rng(0).choice(len(pairs), arguments.limit, replace=False)
        pairs = [pairs[n] for n in sorted(chosen)]
    print(*report, *dropped, f"{len(pairs):,} pairs: {what}", sep="\n")
    batches = Pairs(pairs, *run.tokenizers, BATCH, 0).batches()
    loss = evaluate(run.model, CrossEntropyLoss(ignore_id=marks(run.tokenizers[1]).pad), tracked(batches, "loss"))
    print(f"loss {loss:.4f} nats per token, perplexity {perplexity(loss)}", flush=True)
    sources, targets = zip(*pairs)
    outputs = translate_all(run, sources, beam, penalty)
    has_four_words = any(len(tokenize(target)) >= 4 for target in targets)
    note = "" if has_four_words else " (0 by definition: no target has 4 words)"
    print(f"exact match {exact_match(outputs, targets):.2%}, BLEU {corpus_bleu(outputs, targets):.2f}{note}, beam {beam}")
    if run.kind == "text2text":
        print(*exact_match_by_task(pairs, outputs), sep="\n")


def pairs_to_evaluate(run, arguments):
    """(pairs, report, what they are): those of the given files, or those held out in training."""
    if arguments.source:
        pairs, report = read_pairs(arguments.source, arguments.target)
        return pairs, report, f"{arguments.source} and {arguments.target}"
    if arguments.data:
        pairs, report = read_all_tasks(arguments.data)
        return pairs, report, arguments.data[0]
    name = "tasks" if run.kind == "text2text" else run.settings.get("task")
    return training_task(run).test, [], f"the test set of the {name}" if name else "the validation set"


def translate_all(run, sources, beam, penalty):
    """The model's translation of each source, computed in batches of similar length."""
    framed = [frame_source(run.tokenizers[0], source) for source in sources]
    order = sorted(range(len(sources)), key=lambda n: len(framed[n]))
    translations = [""] * len(sources)
    for rows in tracked([order[i:i + BATCH] for i in range(0, len(order), BATCH)], "translate"):
        for n, best in zip(rows, translate(run, [framed[n] for n in rows], beam, penalty)):
            translations[n] = best[0][0]
    return translations


def training_task(run):
    """The task with the data of the training run. Raises ValueError if the data has changed since."""
    if run.meta["config"] in (IMPORTED, SCRIPT):
        _, usage = OPTIONS.get(run.kind, OTHERS)
        how = "imported" if run.meta["config"] == IMPORTED else "saved by a script"
        raise ValueError(f"{run.path!r} was {how} and has no held-out data; give it some with {usage}")
    task = TASKS[run.kind](run.settings, run.tokenizers, run.meta if run.settings.get("pretrained") else None)
    if task.corpus != run.meta["corpus"]:
        raise ValueError(f"the texts are not those on which {run.path!r} was trained; restore them, or name others")
    return task


def tracked(batches, title):
    """The batches, with a progress bar."""
    with Progress(len(batches), title, "batch") as progress:
        for batch in batches:
            yield batch
            progress.advance()


def perplexity(loss):
    return f"{math.exp(loss):.4g}" if loss < 700 else "above 1e300"
