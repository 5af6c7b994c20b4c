"""numpy-transformer generate and translate: writes text with a trained model."""

import re
import sys

import numpy as np

from ..data import frame_source, marks, pad, read_prompt, unframe
from ..decoding import ModelDraft, NGramDraft, beam_search, generate, greedy_decode, speculative_decode
from ..decoding.logit_changes import RepetitionPenalty
from ..tasks.options import is_published
from ..tasks.runs import PAIRS, load_run
from ..threads import adapt_threads
from .parser import add_command, finite_number, whole_number

BATCH = 32                                      # sentences decoded together
LENGTH, TEMPERATURE = 300, 0.8


def said(default):
    """What the help says about the default of an option of `generate`."""
    return f"default: {default}, or what a published model's generation_config.json says"


def add_to_parser(commands):
    parser = add_command(commands, "generate", run_generate, help="continue a text with a trained language model",
                         description="Print the prompt and the model's continuation of it, without the bytes of an "
                                     "incomplete character at its end.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train lm`, or by `import`")
    parser.add_argument("--prompt", metavar="TEXT", help="the beginning of the text; - reads it from standard input; "
                                                         "if left out, the model starts a new line, or a new "
                                                         "text")
    parser.add_argument("--length", type=whole_number(1), metavar="N", help=f"number of tokens to write ({said(LENGTH)})")
    parser.add_argument("--samples", type=whole_number(1), default=1, metavar="N", help="number of texts")
    parser.add_argument("--temperature", type=finite_number(0), metavar="X",
                        help="0 always takes the most likely token, 1 samples from the model's probabilities "
                             f"({said(TEMPERATURE)})")
    parser.add_argument("--top-k", type=whole_number(1), metavar="K",
                        help=f"sample only from the K most likely tokens ({said('all')})")
    parser.add_argument("--top-p", type=float, metavar="P", help="sample only from the most likely tokens whose "
                                                                 f"probabilities add up to P, in (0, 1] ({said('all')})")
    parser.add_argument("--repetition-penalty", type=finite_number(0), metavar="X",
                        help="makes tokens that the text already has less likely; divides their positive logits by X "
                             f"({said('1, none')})")
    parser.add_argument("--stop", metavar="TEXT", help="stop before this text (default: none)")
    parser.add_argument("--seed", type=whole_number(0), default=1, help="seed of the sampling")
    parser.add_argument("--draft", metavar="RUN.npz",
                        help="a smaller model with the same tokenizer, or `ngram`, which repeats what followed the latest tokens "
                             "before: it guesses tokens, and the model verifies several of them in one call, which does not "
                             "change the distribution of texts")

    parser = add_command(commands, "translate", run_translate, help="translate with a trained encoder-decoder",
                         description="Print the target of each source, one per line.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train seq2seq` or `train text2text`, or by `import`")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="sources; the lines of standard input if left out")
    add_beam(parser, beam=4, penalty=0.6)
    parser.add_argument("--n-best", type=whole_number(1), default=1, metavar="N",
                        help="print the N best targets of each source, with their scores")


def add_beam(parser, beam, penalty):
    parser.add_argument("--beam", type=whole_number(1), default=beam, metavar="N",
                        help="number of hypotheses kept at each step; 1 is greedy decoding")
    parser.add_argument("--length-penalty", type=finite_number(0), default=penalty, metavar="A",
                        help="exponent of the length penalty; larger values favor longer targets")


def run_generate(arguments):
    run = load_run(arguments.file, "lm")
    tokens = run.tokenizers[0]
    prompt = arguments.prompt
    if prompt == "-":
        prompt = standard_input().read().replace("\r\n", "\n")
    if prompt == "":
        raise ValueError("the prompt is empty; give at least one character, or leave --prompt out")
    ids = start_of_text(tokens) if prompt is None else read_prompt(tokens, prompt).tolist()
    stop = [*one_token(tokens, arguments.stop), *getattr(tokens, "stop", [])]
    options, changes = generation_options(run, arguments, len(ids), getattr(tokens, "stop", []))
    options |= {"stop": stop, "changes": changes}
    tokens_per_call = None
    if arguments.draft is None:
        texts = generate(adapt_threads(run.model), [ids] * arguments.samples, rng=arguments.seed, **options)
    else:
        texts, tokens_per_call = guess_and_verify(run, arguments.draft, ids, arguments.samples, arguments.seed, options)
    before = tokens.decode(ids)
    shown = before if hasattr(tokens, "begin") else prompt  # a published model's tokenizer may normalize the prompt
    for n, text in enumerate(texts):
        written = tokens.decode(text).removeprefix(before)
        written = re.sub("\ufffd{1,3}$", "", written)       # it may end inside a character of up to 4 bytes
        if arguments.stop:
            written = written.split(arguments.stop)[0]
        if n:
            print("-" * 40)
        print(written if prompt is None else shown + written, flush=True)
    if tokens_per_call is not None:
        print(f"{tokens_per_call:.2f} tokens per call of the model", file=sys.stderr)


def guess_and_verify(run, draft, ids, samples, seed, options):
    """Returns (texts, tokens per call of the model); `draft` is "ngram" or the file of a run."""
    guesser = NGramDraft(run.tokenizers[0].vocab_size) if draft == "ngram" else None
    if guesser is None:
        other = load_run(draft, "lm")
        if other.meta["tokenizers"] != run.meta["tokenizers"]:
            raise ValueError(f"{draft} has another tokenizer than {run.path}, so its guesses mean other tokens; train it on the "
                             "same text with the same tokenizer, or use --draft ngram")
        guesser = ModelDraft(other.model)
    results = [speculative_decode(adapt_threads(run.model), guesser, ids, rng=stream, **options)
               for stream in np.random.default_rng(seed).spawn(samples)]
    return [result.ids for result in results], (sum(len(result.ids) - len(ids) for result in results)
                                                / sum(result.calls for result in results))


def generation_options(run, arguments, prompt, stops):
    """Returns (arguments of `generate`, changes of the logits): those of the command line before those of the model's own
    generation_config.json, for a prompt with this number of tokens.
    """
    options, changes = {"count": LENGTH, "temperature": TEMPERATURE}, []
    if is_published(run.meta):
        from ..pretrained import generation  # only published models need it

        own = generation(run.model.origin.config, run.model.origin.files, prompt, stops)
        options, changes = options | own.options, own.changes
    given = {"count": arguments.length, "temperature": arguments.temperature, "top_k": arguments.top_k,
             "top_p": arguments.top_p}
    given = {name: value for name, value in given.items() if value is not None}
    if {"top_k", "top_p"} & given.keys() and options["temperature"] == 0:
        options["temperature"] = TEMPERATURE    # whoever restricts sampling wants some
    if arguments.repetition_penalty is not None:
        changes = [change for change in changes if not isinstance(change, RepetitionPenalty)]
        changes.append(RepetitionPenalty(arguments.repetition_penalty))
    return options | given, changes


def start_of_text(tokens):
    """The ids with which a text without a prompt begins."""
    if not hasattr(tokens, "begin"):
        return tokens.encode("\n").tolist()     # our own models have read one long text: begin a line of it
    begin = tokens.begin or [tokens.special[name] for name in ("bos", "eos") if name in tokens.special][:1]
    if not begin:
        raise ValueError("the tokenizer of this model has no token that begins a text; give a --prompt")
    return begin


def one_token(tokens, text):
    """[id] of a text that is a single token, else []: the generated text is then searched for it."""
    try:
        ids = tokens.encode(text or "").tolist()
    except ValueError:                          # it contains a character that the model cannot write
        return []
    return ids if len(ids) == 1 and tokens.decode(ids) == text else []


def run_translate(arguments):
    run = load_run(arguments.file, *PAIRS)
    adapt_threads(run.model)
    where = "TEXT" if arguments.texts else "line"
    for lines in numbered_batches(arguments.texts or standard_input()):
        rows, problem = readable_rows(run, lines, where)
        for targets in translate(run, rows, arguments.beam, arguments.length_penalty, arguments.n_best):
            for text, score in targets:
                print(text if arguments.n_best == 1 else f"{score:.4f}\t{text}", flush=True)
        if problem:
            raise problem


def standard_input():
    """Standard input as UTF-8, without a byte order mark."""
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
    return sys.stdin


def readable_rows(run, lines, where):
    """(ids of the lines up to the first that the model cannot read, the error of that one or None)."""
    tokens, longest = run.tokenizers[0], run.settings["max_len"]
    rows = []
    for number, text in lines:
        try:
            row = frame_source(tokens, text) if text.strip() else np.zeros(0, int)
        except ValueError as error:
            return rows, ValueError(f"{where} {number}: {error}")
        if len(row) > longest:
            remedy = "shorten it" if is_published(run.meta) else "shorten it, or train with a larger --max-len"
            return rows, ValueError(f"{where} {number}: {text[:30]!r}... has {len(row)} tokens, including begin and end, "
                                    f"but the model reads at most {longest}; {remedy}")
        rows.append(row)
    return rows, None


def numbered_batches(lines):
    """Lists of (number, line) without line ends: one line at a time from a terminal, else BATCH lines."""
    typed = lines is sys.stdin and sys.stdin.isatty()
    size = 1 if typed else BATCH
    waiting = []
    for number, line in enumerate(lines, 1):
        waiting.append((number, line.rstrip("\r\n")))
        if len(waiting) == size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def translate(run, rows, beam=1, length_penalty=0.6, n_best=1):
    """For each row of source ids a list of (target, score), best first; an empty row stays empty."""
    tokens, longest = run.tokenizers[1], run.settings["max_len"]
    begin, end = marks(tokens).begin, marks(tokens).end
    translations = [[("", 0.0)]] * len(rows)
    order = sorted((n for n, row in enumerate(rows) if len(row)), key=lambda n: len(rows[n]))
    for chosen in (order[i:i + BATCH] for i in range(0, len(order), BATCH)):
        source = pad([rows[n] for n in chosen], marks(tokens).pad)
        if beam == 1 == n_best:
            targets = [[(ids, 0.0)] for ids in greedy_decode(run.model, source, begin, end, longest)]
        else:
            targets = beam_search(run.model, source, begin, end, longest, beam, length_penalty, n_best)
        for n, best in zip(chosen, targets):
            translations[n] = [(unframe(tokens, np.array(ids)), score) for ids, score in best]
    return translations
