"""numpy-transformer generate, and translate: a trained model at work."""

import sys

import numpy as np

from ..data import BOS, EOS, frame, pad, unframe
from ..decoding import beam_search, generate, greedy_decode
from ..tasks.runs import PAIRS, load_run
from .parser import add_command, number, whole_number

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
    parser.add_argument("--top-k", type=whole_number(1), metavar="K", help="only the K likeliest tokens (default: all)")
    parser.add_argument("--top-p", type=float, metavar="P", help="only the likeliest tokens that reach probability P "
                                                                 "together, in (0, 1] (default: all)")
    parser.add_argument("--stop", metavar="TEXT", help="end before this text (default: none)")
    parser.add_argument("--seed", type=whole_number(0), default=1, help="of the draws")

    parser = add_command(commands, "translate", run_translate, help="translate with a trained encoder-decoder",
                         description="Print the target of each source, a line each.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train seq2seq` or `train text2text`")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="sources; if left out, the lines of standard input")
    add_beam(parser, beam=4, penalty=0.6)
    parser.add_argument("--n-best", type=whole_number(1), default=1, metavar="N",
                        help="print the N best targets of each source, with their scores")


def add_beam(parser, beam, penalty):
    parser.add_argument("--beam", type=whole_number(1), default=beam, metavar="N",
                        help="targets followed side by side; 1 is greedy")
    parser.add_argument("--length-penalty", type=number(0), default=penalty, metavar="A", help="favours long targets")


def run_generate(arguments):
    run = load_run(arguments.file, "lm")
    tokens = run.tokenizers[0]
    prompt = "\n" if arguments.prompt is None else arguments.prompt
    if prompt == "-":
        prompt = standard_input().read().replace("\r\n", "\n")
    if not prompt:
        raise ValueError("the prompt is empty; give at least one character, or leave --prompt out")
    ids = tokens.encode(prompt).tolist()
    stop = one_token(tokens, arguments.stop)
    texts = generate(run.model, [ids] * arguments.samples, arguments.length, arguments.temperature, arguments.top_k,
                     arguments.top_p, stop, arguments.seed)
    for n, text in enumerate(texts):
        written = tokens.decode(text[len(ids):])
        if arguments.stop:
            written = written.split(arguments.stop)[0]
        if n:
            print("-" * 40)
        print(("" if arguments.prompt is None else prompt) + written, flush=True)


def one_token(tokens, text):
    """[id] of a text that is a single token, else nothing: the text is then looked for behind the model."""
    try:
        ids = tokens.encode(text or "").tolist()
    except ValueError:                          # it cannot occur
        return []
    return ids if len(ids) == 1 and tokens.decode(ids) == text else []


def run_translate(arguments):
    run = load_run(arguments.file, *PAIRS)
    where = "TEXT" if arguments.texts else "line"
    for lines in batches(arguments.texts or standard_input()):
        rows, trouble = readable_rows(run, lines, where)
        for targets in translate(run, rows, arguments.beam, arguments.length_penalty, arguments.n_best):
            for text, score in targets:
                print(text if arguments.n_best == 1 else f"{score:.4f}\t{text}", flush=True)
        if trouble:
            raise trouble


def standard_input():
    """Standard input as UTF-8, without a byte order mark."""
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
    return sys.stdin


def readable_rows(run, lines, where):
    """The ids of the lines up to the first that the model cannot read, and what is wrong with that one."""
    tokens, longest, rows = run.tokenizers[0], run.settings["max_len"], []
    for place, text in lines:
        try:
            row = frame(tokens, text) if text.strip() else np.zeros(0, int)
        except ValueError as error:
            return rows, ValueError(f"{where} {place}: {error}")
        if len(row) > longest:
            return rows, ValueError(f"{where} {place}: {text[:30]!r}... has {len(row)} tokens, begin and end included, "
                                    f"but the model reads at most {longest}; shorten it, or train with a larger "
                                    "--max-len")
        rows.append(row)
    return rows, None


def batches(lines):
    """Lists of (number, line) without line ends: one by one where somebody types them, else BATCH at a time."""
    size, waiting = 1 if lines is sys.stdin and sys.stdin.isatty() else BATCH, []
    for place, line in enumerate(lines, 1):
        waiting.append((place, line.rstrip("\r\n")))
        if len(waiting) == size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def translate(run, rows, beam=1, length_penalty=0.6, n_best=1):
    """For each row of source ids a list of (target, score), best first; an empty row stays empty."""
    longest, found = run.settings["max_len"], [[("", 0.0)]] * len(rows)
    order = sorted((n for n, row in enumerate(rows) if len(row)), key=lambda n: len(rows[n]))
    for chosen in (order[i:i + BATCH] for i in range(0, len(order), BATCH)):
        source = pad([rows[n] for n in chosen])
        if beam == 1 == n_best:
            targets = [[(ids, 0.0)] for ids in greedy_decode(run.model, source, BOS, EOS, longest)]
        else:
            targets = beam_search(run.model, source, BOS, EOS, longest, beam, length_penalty, n_best)
        for n, best in zip(chosen, targets):
            found[n] = [(unframe(run.tokenizers[1], np.array(ids)), score) for ids, score in best]
    return found
