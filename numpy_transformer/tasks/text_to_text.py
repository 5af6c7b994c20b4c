"""One encoder-decoder for several tasks, each text with the name of its task in front."""

from ..data import Pairs, frame, limit_length, pad, generate_text_to_text, unframe
from ..data.label_files import read_table
from ..data.pairs import BOS, EOS
from ..data.text_to_text import task_of
from ..decoding import greedy_decode
from ..decoding.bleu import exact_match
from .settings import choice, count, paths
from .encoder import BATCH
from .language_model import LanguageModel
from .parts import digest
from .sequence_to_sequence import SequenceToSequence, hold_out

GENERATED = "generated tasks: reverse, sort, date and summarize"


class TextToText(SequenceToSequence):
    """An EncoderDecoder on sources such as "sort: planet" and their targets."""

    name, title = "text2text", "an encoder-decoder on several tasks, named in front of each text"
    source = [
        paths("data", "a .csv or .tsv with the columns source and target, each source beginning with its task and a "
                      f"colon; if left out, {GENERATED}"),
        choice("tokenizer", "bpe", "what a token of a file is; the generated tasks have words and characters", "char",
               "bpe", "word"),
        count("vocab_size", 4000, "tokens of bpe (256 bytes and the merges) and word", 258),
        count("max_len", 40, "longest text in tokens, begin and end included", 3),
        choice("too_long", "drop", "what happens to longer ones of a file", "drop", "cut")]
    presets = {"small": SequenceToSequence.small | dict(num_layers=2, max_len=40, weight_decay=0.3, steps=4000),
               "2017": {}}
    config_help = LanguageModel.config_help
    preset = staticmethod(LanguageModel.preset)

    @staticmethod
    def idle(settings):
        if not settings["data"]:
            return [(["tokenizer", "vocab_size", "too_long"], "the generated tasks have a tokenizer of their own")]
        return LanguageModel.idle(settings)

    def __init__(self, settings, tokenizers=None):
        self.settings = s = settings
        self.report = []
        if s["data"]:
            training, validation, self.test, self.report = read_tasks(s["data"], s["seed"])
            self.test = self.test or validation
            if not tokenizers:
                tokenizers = self.train_tokenizers(training, training + validation + self.test)
        else:
            made = generate_text_to_text(s["seed"])
            training, validation, self.test = made.training, made.validation, made.test
            tokenizers = tokenizers or made.tokenizers()
        self.tokenizers = tokenizers
        held_out_pairs = validation
        training, report = limit_length(training, *tokenizers, s["max_len"], s["too_long"])
        validation, held_out = limit_length(validation, *tokenizers, s["max_len"], s["too_long"])
        self.report += report + [f"to validate: {line}" for line in held_out]
        self.tested = self.test is not held_out_pairs
        tested = f"{len(self.test):,}" if self.tested else "none"
        self.corpus = {"sha256": digest("\n".join(map("\t".join, training + validation)))}
        self.batches = Pairs(training, *tokenizers, s["batch_size"], s["seed"], 100 if s["data"] else 4)
        self.validation = Pairs(validation, *tokenizers, BATCH, s["seed"]).batches()
        self.description = (f"{len(training):,} pairs of {s['data'][0] if s['data'] else GENERATED}, "
                            f"{len(validation):,} to validate, {tested} to test; {self.batches.padding:.1%} "
                            "of a batch is padding")

    def results(self, model):
        """Lines on the test: the exact match of each task."""
        yield f"on the {'test' if self.tested else 'texts that validate, as there is no test'}:"
        pairs, report = limit_length(self.test, *self.tokenizers, self.settings["max_len"])
        yield from report
        order = sorted(range(len(pairs)), key=lambda n: len(pairs[n][0]))
        found = [""] * len(pairs)
        for rows in (order[i:i + BATCH] for i in range(0, len(pairs), BATCH)):
            sources = pad([frame(self.tokenizers[0], pairs[n][0]) for n in rows])
            for n, ids in zip(rows, greedy_decode(model.eval(), sources, BOS, EOS, self.settings["max_len"])):
                found[n] = unframe(self.tokenizers[1], ids)
        yield from by_task(pairs, found)


def read_tasks(data, seed):
    """(training, validation, test, report) of a table; what its column `split` does not give is held out."""
    (training, validation, test), report = read_parts(data)
    if not validation:
        training, validation = hold_out(training, seed)
    return training, validation, test, report


def read_all_tasks(data):
    """(pairs, report) of all parts of a table."""
    parts, report = read_parts(data)
    return sum(parts, []), report


def read_parts(data):
    if len(data) != 1:
        raise ValueError(f"--data names {len(data)} files; give one .csv or .tsv with the columns source and target")
    parts, report = read_table(data[0], "source", "target", None, None)
    parts = [parts.get(part, []) for part in ("training", "validation", "test")]
    for source, _ in sum(parts, []):
        task_of(source)
    return parts, report


def by_task(pairs, found):
    """Lines: the exact match of each task, in the order in which they occur."""
    tasks = {}
    for (source, target), text in zip(pairs, found):
        tasks.setdefault(task_of(source), []).append((text, target))
    for name, texts in tasks.items():
        yield f"{name}: exact match {exact_match(*zip(*texts)):.2%} of {len(texts):,}"
