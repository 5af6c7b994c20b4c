"""numpy-transformer generate, and translate: a trained model at work."""

import sys

import numpy as np

from ..data import BOS, EOS, frame, pad, unframe
from ..decoding import beam_search, generate, greedy_decode
from .parser import add_command, number, whole_number
from .runs import load_run

BATCH = 32                                      # sentences decoded together


def add(commands):
    parser = add_command(commands, "generate", run_generate, help="go on from a text with a trained language model",
                         description="Print the prompt and what the model writes behind it.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train lm`")
    parser.add_argument("--prompt", metavar="TEXT", help="the beginning; - reads it from standard input; if left out, "
                                                         "the model begins behind a line end")
    parser.add_argument("--length", type=whole_number(1), default=300, metavar="N", help="tokens to write")
    parser.add_argument("--samples", type=whole_number(1), default=1, metavar="N", help="how many texts")
    parser.add_argument("--temperature", type=number(0), default=0.8, metavar="X",
                        help="0 always takes the likeliest token, 1 the model's own probabilities")
    parser.add_argument("--top-k", type=whole_number(1), metavar="K", help="only the K likeliest tokens")
    parser.add_argument("--top-p", type=float, metavar="P", help="only the likeliest tokens that reach probability P "
                                                                 "together, in (0, 1]")
    parser.add_argument("--stop", metavar="TEXT", help="end before this text")
    parser.add_argument("--seed", type=whole_number(0), default=1, help="of the draws")

    parser = add_command(commands, "translate", run_translate, help="translate with a trained encoder-decoder",
                         description="Print the target of each source, a line each.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train seq2seq`")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="sources; if left out, the lines of standard input")
    add_beam(parser, default=4)
    parser.add_argument("--n-best", type=whole_number(1), default=1, metavar="N",
                        help="print the N best targets of each source, with their scores")


def add_beam(parser, default):
    parser.add_argument("--beam", type=whole_number(1), default=default, metavar="N",
                        help="targets followed side by side; 1 is greedy")
    parser.add_argument("--length-penalty", type=number(0), default=0.6, metavar="A", help="favours long targets")


def run_generate(arguments):
    run = load_run(arguments.file, "lm")
    tokens = run.tokenizers[0]
    prompt = sys.stdin.read() if arguments.prompt == "-" else "\n" if arguments.prompt is None else arguments.prompt
    if not prompt:
        raise ValueError("the prompt is empty; give at least one character, or leave --prompt out")
    ids = tokens.encode(prompt).tolist()
    stop = tokens.encode(arguments.stop).tolist() if arguments.stop else []
    texts = generate(run.model, [ids] * arguments.samples, arguments.length, arguments.temperature, arguments.top_k,
                     arguments.top_p, stop if len(stop) == 1 else (), arguments.seed)
    for n, text in enumerate(texts):
        written = tokens.decode(text[len(ids):])
        if arguments.stop:
            written = written.split(arguments.stop)[0]
        if n:
            print("-" * 40)
        print(("" if arguments.prompt is None else prompt) + written, flush=True)


def run_translate(arguments):
    run = load_run(arguments.file, "seq2seq")
    for lines in batches(arguments.texts or sys.stdin):
        for targets in translate(run, lines, arguments.beam, arguments.length_penalty, arguments.n_best):
            for text, score in targets:
                print(text if arguments.n_best == 1 else f"{score:.4f}\t{text}", flush=True)


def batches(lines):
    """Lists of lines without their ends: one by one where somebody types them, else BATCH at a time."""
    size, waiting = 1 if lines is sys.stdin and sys.stdin.isatty() else BATCH, []
    for line in lines:
        waiting.append(line.rstrip("\r\n"))
        if len(waiting) == size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def translate(run, texts, beam=1, length_penalty=0.6, n_best=1):
    """For each text a list of (target, score), best first; an empty text stays empty."""
    source_tokens, target_tokens = run.tokenizers
    longest = run.settings["max_len"]
    rows = [frame(source_tokens, text) for text in texts]
    for text, row in zip(texts, rows):
        if len(row) > longest:
            raise ValueError(f"the text {text[:30]!r}... has {len(row)} tokens, begin and end included, but the model "
                             f"reads at most {longest}; shorten it, or train with a larger --max-len")
    found = [[("", 0.0)]] * len(texts)
    order = sorted((n for n, text in enumerate(texts) if text.strip()), key=lambda n: len(rows[n]))
    for chosen in (order[i:i + BATCH] for i in range(0, len(order), BATCH)):
        source = pad([rows[n] for n in chosen])
        if beam == 1 == n_best:
            targets = [[(ids, 0.0)] for ids in greedy_decode(run.model, source, BOS, EOS, longest)]
        else:
            targets = beam_search(run.model, source, BOS, EOS, longest, beam, length_penalty, n_best)
        for n, best in zip(chosen, targets):
            found[n] = [(unframe(target_tokens, np.array(ids)), score) for ids, score in best]
    return found
