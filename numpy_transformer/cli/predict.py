"""numpy-transformer classify, tag, fill, embed, similar: applies trained encoders to texts."""

import io
import sys

import numpy as np

from ..data.text import read_text
from ..layers import Softmax
from ..outputs import check_output, write_output
from ..tasks.classifier import classify
from ..tasks.encoder import ENCODERS, apply_in_order, describe_cuts
from ..tasks.runs import load_run
from ..tasks.tagger import find_tags
from .generate import numbered_batches, standard_input
from .parser import add_command, whole_number


def add_to_parser(commands):
    parser = add_command(commands, "classify", run_classify, help="classify texts with a trained classifier",
                         description="Print one line for each text: its class, the probability of the class, the text.")
    add_texts(parser, "`train classifier` or `import`", "texts")

    parser = add_command(commands, "tag", run_tag, help="find named entities with a trained tagger",
                         description="Print the words of each sentence with their tags, one word per line, and a blank "
                                     "line after each sentence. The tag ? marks a word that was cut off.")
    add_texts(parser, "`train tagger` or `import`", "sentences, with spaces between words and punctuation")

    parser = add_command(commands, "fill", run_fill, help="fill in masked words with a masked language model",
                         description="Print the most likely words for each [MASK], with their probabilities among "
                                     "all tokens but the special ones.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train mlm` or `import`")
    parser.add_argument("text", metavar="TEXT", help="such as 'The [MASK] is a name.'")
    parser.add_argument("--top", type=whole_number(1), default=5, metavar="N", help="number of words for each [MASK]")

    parser = add_command(commands, "embed", run_embed, help="compute the vectors of texts with an encoder",
                         description="Print the vector of each text as tab-separated numbers, or save all vectors. "
                                     "A vector is the mean of the encoder's outputs; a published sentence encoder may "
                                     "take the output of the first token instead, and scale it to length 1, as `info` "
                                     "shows.")
    add_texts(parser, "`train mlm`, `classifier` or `tagger`, or by `import`", "texts")
    parser.add_argument("--out", metavar="FILE.npy", help="save the vectors as an array of shape (texts, width) instead")

    parser = add_command(commands, "similar", run_similar, help="find the lines of a file that are most similar to a text",
                         description="Print the lines of a file whose sentence vectors have the largest cosine "
                                     "similarity to that of the text.")
    parser.add_argument("file", metavar="RUN.npz", help="written by `train mlm`, `classifier` or `tagger`, or by "
                                                        "`import`")
    parser.add_argument("text", metavar="TEXT", help="the text that the lines are compared with")
    parser.add_argument("--within", metavar="FILE", required=True, help="UTF-8 text file with one sentence per line")
    parser.add_argument("--top", type=whole_number(1), default=5, metavar="N", help="number of lines to print")


def add_texts(parser, kind, what):
    parser.add_argument("file", metavar="RUN.npz", help=f"written by {kind}")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help=f"{what}; the lines of standard input if left out")


def run_classify(arguments):
    run = load_run(arguments.file, "classifier")
    if len(run.labels) < 2:
        raise ValueError(f"{run.path!r} gives one number for each text instead of classes (a regression); use `embed` or "
                         "`similar` with it, or name a classifier")
    reader = run.reader
    for texts, rows in read_lines(arguments.texts, reader):
        for text, probabilities in zip(texts, classify(run.model, reader, rows, run.is_exclusive)):
            print(f"{run.labels[probabilities.argmax()]}\t{probabilities.max():.4f}\t{text}", flush=True)


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
    positions = np.flatnonzero(ids == reader.mask_id)
    logits = run.model(ids, None, None, positions)
    logits[:, reader.not_words] = -np.inf
    logits[:, reader.vocab_size:] = -np.inf     # a published model may have room for more tokens than there are
    for number, probabilities in enumerate(Softmax().eval()(logits)):
        if number:
            print()
        for token in probabilities.argsort()[::-1][:min(arguments.top, np.count_nonzero(probabilities))]:
            print(f"{probabilities[token]:.4f}\t{printable(reader.name(token))}")


def printable(text):
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def run_embed(arguments):
    if arguments.out:
        if not arguments.out.endswith(".npy"):
            raise ValueError(f"--out {arguments.out!r} must end in .npy: it is an array for np.load")
        check_output(arguments.out)
    run = load_run(arguments.file, *ENCODERS)
    reader = run.reader
    saved = []
    for _, rows in read_lines(arguments.texts, reader, run.settings.get("prompt", "")):
        vectors = sentence_vectors(run, reader, rows)
        if arguments.out:
            saved.append(vectors)
        else:
            print(*("\t".join(f"{number:.6g}" for number in vector) for vector in vectors), sep="\n", flush=True)
    if arguments.out:
        save_vectors(arguments.out, saved)


def save_vectors(path, batches):
    if not batches:
        raise ValueError("standard input holds no text; give one line for each vector")
    vectors = np.concatenate(batches)
    content = io.BytesIO()
    np.save(content, vectors)
    write_output(path, content.getvalue())
    print(f"saved an array of shape {vectors.shape} in {path!r}")


def run_similar(arguments):
    run = load_run(arguments.file, *ENCODERS)
    reader = run.reader
    lines = [line for line in read_text(arguments.within).split("\n") if len(reader.pieces(line))]
    if not lines:
        raise ValueError(f"no line of {arguments.within!r} contains a word; name a file with one sentence per line")
    prompt = run.settings.get("prompt", "")
    text, *others = sentence_vectors(run, reader, [read_after(prompt, line, reader) for line in [arguments.text, *lines]])
    cosines = others @ text / (np.linalg.norm(others, axis=1) * np.linalg.norm(text))
    report_cuts(reader, 1 + len(lines))
    for n in np.argsort(-cosines, kind="stable")[:arguments.top]:
        print(f"{cosines[n]:.4f}\t{lines[n].strip()}")


def sentence_vectors(run, reader, rows):
    """(N, d_model) sentence vectors of texts as ids, in their order; fewer columns if the model says so."""
    vectors = apply_in_order(type(run.model).embed, run.model, reader, rows)
    return vectors[:, :run.settings.get("truncate_dim")]


def read_after(prompt, text, reader):
    """The ids of a text with the model's prompt before it. A text without words gets no prompt, so that it is refused."""
    return reader.read(prompt + text if prompt and reader.normalize(text) else text)


def read_lines(texts, reader, prompt=""):
    """Yields (texts, their ids) in batches. The texts before one without a word are yielded before that one is reported."""
    what = "TEXT" if texts else "line"
    count = 0
    for lines in numbered_batches(texts or standard_input()):
        kept, problem = [], None
        for number, text in lines:
            try:
                kept.append((text, read_after(prompt, text, reader)))
            except ValueError as error:
                problem = ValueError(f"{what} {number}: {error}")
                break
        count += len(kept)
        if kept:
            yield tuple(zip(*kept))
        if problem:
            report_cuts(reader, count)
            raise problem
    report_cuts(reader, count)


def report_cuts(reader, count):
    for line in describe_cuts(reader, count):
        print(line, file=sys.stderr)
