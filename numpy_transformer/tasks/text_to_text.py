"""Several tasks for one encoder-decoder: each source begins with the name of its task, as in "sort: planet"."""

from ..data import Pairs, frame, frame_source, generate_text_to_text, limit_length, marks, pad, unframe
from ..data.label_files import read_table
from ..data.splits import hold_out_sources
from ..data.text_to_text import task_of
from ..decoding import greedy_decode
from ..decoding.bleu import exact_match
from ..layers import CrossEntropyLoss
from .pairs import PAPER, SMALL, PairsTask, identify
from .settings import FINE_TUNE, LORA, SettingError, choice, count_setting, paths

GENERATED = "generated tasks: reverse, sort, date and summarize"
BATCH = 64                                      # sources decoded together


class TextToTextTask(PairsTask):
    """Trains one EncoderDecoder on several tasks."""

    name, title = "text2text", "an encoder-decoder on several tasks, each named at the start of its source"
    data_settings = [
        paths("data", "a .csv or .tsv with the columns source and target; each source begins with the name of its task "
                      f"and a colon; if left out, {GENERATED}"),
        choice("tokenizer", "bpe", "what a token of a file is; generated tasks have words and characters", "char", "bpe",
               "word"),
        count_setting("vocab_size", 4000, "vocabulary size of bpe (256 bytes and the merges) and word", 258),
        count_setting("max_len", 40, "length of the longest text in tokens, including begin and end", 3),
        choice("too_long", "drop", "what happens to longer texts of a file", "drop", "cut")]
    configurations = {"small": SMALL | dict(num_layers=2, max_len=40, weight_decay=0.3, steps=4000), "2017": PAPER,
                      "fine-tune": FINE_TUNE | dict(max_len=128, batch_size=16, lr=1e-4, steps=1000),
                      "lora": LORA | dict(max_len=128, batch_size=16, steps=1000)}
    starts_from = ("text2text",)

    @staticmethod
    def generates_pairs(settings):
        return not settings["data"]

    def __init__(self, settings, tokenizers=None, base=None):
        self.settings = s = settings
        self.base = base
        self.report = []
        if s["data"]:
            training, validation, self.test, self.report = read_tasks(s["data"], s["seed"])
            self.test = self.test or validation
            self.tokenizers = tokenizers or self.train_tokenizers(training, training + validation + self.test)
            source, pool = s["data"][0], 100
        else:
            generated = generate_text_to_text(s["seed"])
            training, validation, self.test = generated.training, generated.validation, generated.test
            self.tokenizers = tokenizers or generated.tokenizers()
            source, pool = GENERATED, 4         # pairs of mixed lengths in a batch: the model learns faster
        self.has_test = self.test is not validation
        training, validation = self.limit_lengths(training, validation)
        self.corpus = {"sha256": identify(training + validation)}
        self.batches = Pairs(training, *self.tokenizers, s["batch_size"], s["seed"], pool)
        self.validation = Pairs(validation, *self.tokenizers, BATCH, s["seed"]).batches()
        test = f"{len(self.test):,}" if self.has_test else "none"
        self.description = (f"{len(training):,} training pairs of {source}, {len(validation):,} for validation, {test} for "
                            f"testing; {self.batches.padding:.1%} of a batch is padding")

    def make_criterion(self, label_smoothing=0.0):
        """Returns the loss of a model that may pad with an id of its own."""
        return CrossEntropyLoss(label_smoothing, ignore_id=marks(self.tokenizers[1]).pad)

    def results(self, model):
        """Lines on the test set: the exact match of each task."""
        yield f"on the {'test set' if self.has_test else 'validation set, as there is no test set'}:"
        pairs, report = limit_length(self.test, *self.tokenizers, self.settings["max_len"])
        yield from report
        yield from exact_match_by_task(pairs, self.decode(model.eval(), pairs))

    def decode(self, model, pairs):
        """Returns the model's answers by greedy decoding.

        An answer ends one token after the longest target of its batch: a longer one is wrong already, and a model that
        has not learned to stop would decode max_len tokens for each source.
        """
        source_tokens, target_tokens = self.tokenizers
        begin, end = marks(target_tokens).begin, marks(target_tokens).end
        order = sorted(range(len(pairs)), key=lambda n: len(pairs[n][0]))
        answers = [""] * len(pairs)
        for rows in (order[i:i + BATCH] for i in range(0, len(pairs), BATCH)):
            sources = pad([frame_source(source_tokens, pairs[n][0]) for n in rows], marks(source_tokens).pad)
            longest = max(len(frame(target_tokens, pairs[n][1])) for n in rows)
            limit = min(longest, self.settings["max_len"])
            for n, ids in zip(rows, greedy_decode(model, sources, begin, end, max_len=limit)):
                answers[n] = unframe(target_tokens, ids)
        return answers


def read_tasks(data, seed):
    """Returns (training, validation, test, report) of a table; without a `split` column, validation pairs are held out."""
    (training, validation, test), report = read_splits(data)
    if not validation:
        training, validation = hold_out_sources(training, seed)
    return training, validation, test, report


def read_all_tasks(data):
    """Returns (pairs, report) of all rows of a table."""
    splits, report = read_splits(data)
    return sum(splits, []), report


def read_splits(data):
    if len(data) != 1:
        raise SettingError(f"$data names {len(data)} files; give one .csv or .tsv with the columns source and target")
    splits, report = read_table(data[0], "source", "target", None, None)
    splits = [splits.get(name, []) for name in ("training", "validation", "test")]
    for source, _ in sum(splits, []):
        task_of(source)                         # raises ValueError if a source names no task
    return splits, report


def exact_match_by_task(pairs, answers):
    """Lines: the exact match of each task, in the order in which the tasks first occur."""
    tasks = {}
    for (source, target), answer in zip(pairs, answers):
        tasks.setdefault(task_of(source), []).append((answer, target))
    for name, texts in tasks.items():
        yield f"{name}: exact match {exact_match(*zip(*texts)):.2%} of {len(texts):,}"
