"""The task of an encoder-decoder: writing the target of a source text."""

from ..data import GENERATED_PAIRS, Pairs, read_pairs
from ..data.splits import hold_out_sources
from .pairs import PAPER, SMALL, PairsTask, identify
from .settings import FINE_TUNE, LORA, Setting, SettingError, choice, count_setting


class SequenceToSequenceTask(PairsTask):
    """Trains an EncoderDecoder on generated pairs, or on two line-aligned files."""

    name, title = "seq2seq", "an encoder-decoder on pairs of texts"
    data_settings = [
        choice("task", None, "generated pairs: dates are read as 1999-03-03, letters are copied, reversed or sorted",
               *GENERATED_PAIRS),
        Setting("source", None, "UTF-8 text file with one sentence per line"),
        Setting("target", None, "UTF-8 text file with their translations, line by line"),
        choice("tokenizer", "bpe", "what a token of the files is; generated pairs have characters", "char", "bpe", "word"),
        count_setting("vocab_size", 4000, "vocabulary size of bpe (256 bytes and the merges) and word, for each side", 258),
        count_setting("max_len", 100, "length of the longest sentence in tokens, including begin and end", 3),
        choice("too_long", "drop", "what happens to longer sentences", "drop", "cut")]
    configurations = {
        "2017": PAPER,
        "2017-base": PAPER | dict(d_model=512, num_heads=8, num_layers=6, d_ff=2048, warmup=4000, steps=100_000),
        "copy": SMALL | dict(max_len=16, steps=1000), "dates": SMALL, "reverse": SMALL,
        "sort": SMALL | dict(num_layers=2, weight_decay=0.1, steps=3000),
        "fine-tune": FINE_TUNE | dict(max_len=128, batch_size=16, lr=1e-4, steps=1000),
        "lora": LORA | dict(max_len=128, batch_size=16, steps=1000)}
    starts_from = "seq2seq", "text2text"
    configuration_help = ("named settings, each of which an option can still change (default: those of $task; 2017 for files)")

    @classmethod
    def choose_configuration(cls, config, given, base=None):
        if base and not config:
            return super().choose_configuration(config, given, base)
        return config or given.get("task") or "2017"

    @staticmethod
    def generates_pairs(settings):
        return settings["task"] is not None

    def __init__(self, settings, tokenizers=None, base=None):
        self.settings = s = settings
        self.base = base
        files = s["source"], s["target"]
        check_sources(s["task"], *files)
        if s["task"]:
            training, validation = self.generate(tokenizers)
            pool = 4                            # pairs of mixed lengths in a batch: the model learns faster
        else:
            training, validation = self.read(files, tokenizers)
            pool = 100
        self.corpus = {"task": s["task"], "sha256": identify(training + validation)}
        self.batches = Pairs(training, *self.tokenizers, s["batch_size"], s["seed"], pool)
        self.validation = Pairs(validation, *self.tokenizers, 64, s["seed"]).batches()
        self.description = (f"{len(training):,} training pairs of {s['task'] or ' and '.join(files)}, {len(validation):,} "
                            f"for validation; {self.batches.padding:.1%} of a batch is padding")

    def generate(self, tokenizers):
        s = self.settings
        self.pairs = GENERATED_PAIRS[s["task"]](s["seed"])
        self.test, self.report = self.pairs.test, []
        self.tokenizers = tokenizers or self.pairs.tokenizers()
        every_pair = self.pairs.training + self.pairs.validation + self.test
        longest = max(len(text) for pair in every_pair for text in pair) + 2
        if longest > s["max_len"]:
            raise SettingError(f"$max_len {s['max_len']} is too short for $task {s['task']}: its longest text has "
                               f"{longest} tokens, including begin and end; raise it")
        return self.pairs.training, self.pairs.validation

    def read(self, files, tokenizers):
        pairs, self.report = read_pairs(*files)
        training, validation = hold_out_sources(pairs, self.settings["seed"])
        self.test = validation
        self.tokenizers = tokenizers or self.train_tokenizers(training, pairs)
        return self.limit_lengths(training, validation)


def check_sources(task, source, target):
    """Raises ValueError unless either a task or both files are given."""
    given = [file for file in (source, target) if file is not None]
    if len(given) == 1 or (task is None) == (not given):
        raise SettingError("name what to train on: either $task copy, reverse, sort or dates, or both $source FILE and "
                           "$target FILE")
