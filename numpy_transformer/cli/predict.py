"""numpy-transformer classify, tag, fill, embed, similar: what trained encoders make of texts."""

import sys

import numpy as np

from ..data.reader import MASK, SPECIAL
from ..data.text import read_text
from ..layers import Softmax
from ..tasks.classifier import classify
from ..tasks.encoder import apply_in_order, describe_cuts
from ..tasks.runs import ENCODERS, load_run
from ..tasks.tagger import find_tags
from ..training.checkpoint import check_writable
from .generate import batches, standard_input
from .parser import add_command, whole_number


def add(commands):
    parser = add_command(commands, "classify", run_classify, help="the class of texts, by a trained classifier",
                         description="Print a line for each text: its class, the probability, the text.")
    add_texts(parser, "`train classifier`", "texts")

    parser = add_command(commands, "tag", run_tag, help="the named entities of sentences, by a trained tagger",
                         description="Print each sentence's words with their tags, a word a line, and a blank line; ? "
                                     "stands for the tag of a word that was not read.")
    add_texts(parser, "`train tagger`", "sentences, whose words and punctuation are set apart by spaces")

    parser = add_command(commands, "fill", run_fill, help="fill in a masked word with a masked language model",
                         description="Print the likeliest words for each [MASK], with their probabilities.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train mlm`")
    parser.add_argument("text", metavar="TEXT", help="such as 'The [MASK] is a name.'")
    parser.add_argument("--top", type=whole_number(1), default=5, metavar="N", help="words for each place")

    parser = add_command(commands, "embed", run_embed, help="sentence vectors: the mean of an encoder's outputs",
                         description="Print the vector of each text, its numbers separated by tabs, or save them all.")
    add_texts(parser, "`train mlm`, `classifier` or `tagger`", "texts")
    parser.add_argument("--out", metavar="FILE.npy", help="save the vectors as an array (texts, width) instead")

    parser = add_command(commands, "similar", run_similar, help="the lines of a file that are most like a text",
                         description="Print the nearest lines of a file by the cosine of their sentence vectors.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train mlm`, `classifier` or `tagger`")
    parser.add_argument("text", metavar="TEXT", help="what the lines are compared with")
    parser.add_argument("--within", metavar="FILE", required=True, help="UTF-8 text, a sentence a line")
    parser.add_argument("--top", type=whole_number(1), default=5, metavar="N", help="lines to print")


def add_texts(parser, kind, what):
    parser.add_argument("file", metavar="RUN.npz", help=f"written by {kind}")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help=f"{what}; if left out, the lines of standard input")


def run_classify(arguments):
    run = load_run(arguments.file, "classifier")
    reader = run.reader
    for texts, rows in read_lines(arguments.texts, reader):
        for text, shares in zip(texts, classify(run.model, reader, rows)):
            print(f"{run.labels[shares.argmax()]}\t{shares.max():.4f}\t{text}", flush=True)


def run_tag(arguments):
    run = load_run(arguments.file, "tagger")
    reader = run.reader
    for texts, _ in read_lines(arguments.texts, reader):
        words = [text.split() for text in texts]
        for line, tags in zip(words, find_tags(run.model, reader, run.labels, words, unread="?")):
            print("".join(f"{word}\t{tag}\n" for word, tag in zip(line, tags)), flush=True)


def run_fill(arguments):
    run = load_run(arguments.file, "mlm")
    reader = run.reader
    ids = reader.read_masked(arguments.text)
    places = np.flatnonzero(ids == MASK)
    logits = run.model(ids, None, None, places)
    logits[:, :SPECIAL + (reader.tokens.to_json()["kind"] == "word")] = -np.inf         # and <unk> is no word
    for number, shares in enumerate(Softmax().eval()(logits)):
        if number:
            print()
        for token in shares.argsort()[::-1][:min(arguments.top, np.count_nonzero(shares))]:
            print(f"{shares[token]:.4f}\t{printable(reader.name(token))}")


def printable(text):
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def run_embed(arguments):
    run, found = load_run(arguments.file, *ENCODERS), []
    if arguments.out:
        if not arguments.out.endswith(".npy"):
            raise ValueError(f"--out {arguments.out!r} must end in .npy: it becomes an array for np.load")
        check_writable(arguments.out)
    reader = run.reader
    for _, rows in read_lines(arguments.texts, reader):
        found.append(vectors(run.model, reader, rows))
        if not arguments.out:
            print(*("\t".join(f"{number:.6g}" for number in vector) for vector in found.pop()), sep="\n", flush=True)
    if arguments.out:
        if not found:
            raise ValueError("there is no text on standard input; give a line for each vector")
        with open(arguments.out, "wb") as file:
            np.save(file, np.concatenate(found))
        print(f"saved an array of shape {(sum(map(len, found)), found[0].shape[1])} in {arguments.out!r}")


def run_similar(arguments):
    run = load_run(arguments.file, *ENCODERS)
    reader = run.reader
    lines = [line for line in read_text(arguments.within).split("\n") if len(reader.pieces(line))]
    if not lines:
        raise ValueError(f"no line of {arguments.within!r} has a word; name a file with a sentence a line")
    text, *others = vectors(run.model, reader, [reader.read(line) for line in [arguments.text, *lines]])
    cosines = others @ text / (np.linalg.norm(others, axis=1) * np.linalg.norm(text))
    say_cuts(reader, 1 + len(lines))
    for n in np.argsort(-cosines, kind="stable")[:arguments.top]:
        print(f"{cosines[n]:.4f}\t{lines[n].strip()}")


def vectors(model, reader, rows):
    """(N, d_model) sentence vectors of texts as ids, in their order."""
    return apply_in_order(model.embed, model, reader, rows)


def read_lines(texts, reader):
    """Yield (texts, their ids) in batches; what came before a text without a word is yielded first."""
    where, count = "TEXT" if texts else "line", 0
    for lines in batches(texts or standard_input()):
        kept, trouble = [], None
        for place, text in lines:
            try:
                kept.append((text, reader.read(text)))
            except ValueError as error:
                trouble = ValueError(f"{where} {place}: {error}")
                break
        count += len(kept)
        if kept:
            yield tuple(zip(*kept))
        if trouble:
            say_cuts(reader, count)
            raise trouble
    say_cuts(reader, count)


def say_cuts(reader, count):
    for line in describe_cuts(reader, count):
        print(line, file=sys.stderr)
