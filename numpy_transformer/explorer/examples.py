"""What the explorer shows: a model, its loss, and how a text and its target become arrays for them."""

import numpy as np

from ..data import BOS, EOS, PAD, frame
from ..data.batches import IGNORE
from ..data.plurals import counted
from ..data.reader import MASK, SPECIAL, plain_words
from ..layers import BinaryCrossEntropyLoss, CrossEntropyLoss
from ..tasks import TASKS
from ..tasks.runs import ENCODERS, load_run

FRAME = ("[pad]", "[begin]", "[end]")           # labels of PAD, BOS and EOS
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥"}
NEXT = "The target of each token is the next token."
GIVEN = "The target was given."
RIGHT = "The target is the right answer."
PREDICTED = "No target was given, so the target is what the model itself predicts."


class Example:
    """A model with its loss and the reader of its texts. The subclasses read the texts of one kind of model each.

    Parameters:
        model : Module, as it was trained
        tokenizers : list of tokenizers, of the source first
        text, target : str, what is shown first; the target may be None
        title : str
        labels : list of str, the classes or tags
        reader : TextReader of an encoder-only model
        words : list of all words that a tiny model knows, or None
        answer : function that returns the right target of a text, or None if it knows none

    Attributes: these, and `criterion`, and `kind`, as in `train KIND`.
    """

    kind = None

    def __init__(self, model, tokenizers, text, target=None, *, title, labels=None, reader=None, words=None,
                 answer=None):
        self.model = model.eval()
        self.tokenizers = tokenizers
        self.text, self.target, self.title = text, target, title
        self.labels, self.reader, self.words = labels, reader, words
        self.answer = answer or (lambda text: None)
        self.criterion = self.make_criterion()

    def make_criterion(self):
        return CrossEntropyLoss(ignore_id=IGNORE)

    def __repr__(self):
        return f"{type(self).__name__}({self.title!r}, {self.model!r})"

    def read(self, text=None, target=None):
        """Returns (inputs, targets, tokens): the model's arguments, the loss's, and "tokens" of the document.

        tokens["targets"] labels what the loss wants; "" marks a position without a target.

        Without a text, the default text and target are read. Without a target, it is the right answer if that is known,
        and otherwise what the model predicts; tokens["note"] says which.

        Raises: ValueError with one sentence if the model cannot read the text or the target.
        """
        if text is None:
            text = self.text
            target = self.target if target is None else target
        check_string(text, "text")
        if target is not None:
            check_string(target, "target")
            target = target.strip() and self.clean(target, "target")
        if not text.strip():
            raise ValueError("the text is empty; give at least one word")
        inputs, targets, tokens = self.read_texts(self.clean(text, "text"), target or None)
        tokens.setdefault("targets", tokens["target"])
        return inputs, targets, tokens

    def read_texts(self, text, target):
        raise NotImplementedError

    def clean(self, text, name):
        """Returns the text; that of a tiny model in lower case. Raises ValueError for a word that a tiny model lacks."""
        if self.words is None:
            return text
        words = plain_words(text).split()
        unknown = [word for word in words if word not in self.words]
        if unknown or not words:
            found = f"the word {shorten(unknown[0])!r}" if unknown else "no word"
            raise ValueError(f"the {name} has {found}, but this tiny model knows only {counted(len(self.words), 'word')}: "
                             f"{', '.join(self.words)}")
        return "".join(f" {word}" for word in words)

    def labels_of(self, tokenizer, special=()):
        """Returns the labels of all ids: those of special ids first, then the tokens of the tokenizer."""
        return [*special, *(visible(tokenizer.decode([i])) for i in range(tokenizer.vocab_size))]


class LanguageModelExample(Example):
    """A language model: the target of each token is the next one."""

    kind = "lm"

    def read_texts(self, text, target):
        tokenizer, most = self.tokenizers[0], self.model.max_len
        ids = tokenizer.encode(text)
        check_length(ids, most)
        targets = np.append(ids[1:], IGNORE)
        if target is not None:
            targets = self.read_target(ids, tokenizer.encode(target))
        if (targets == IGNORE).all():
            raise ValueError("a single token has no next token to predict; give a longer text, or a target")
        labels = self.labels_of(tokenizer)
        tokens = {"source": [pick(labels, ids)], "target": [pick(labels, targets)], "vocabulary": labels,
                  "note": NEXT if target is None else GIVEN}
        return (ids[None],), targets[None], tokens

    def read_target(self, ids, target):
        """Returns the targets: one for each token, or the one that comes after the last token."""
        if len(target) == len(ids):
            return target
        if len(target) == 1:
            return np.append(ids[1:], target)
        raise ValueError(f"the target has {counted(len(target), 'token')} and the text has {len(ids)}; give one target for "
                         "each token, or one that comes after the last token")


class PairsExample(Example):
    """An encoder-decoder: the text is the source, and the target is its translation."""

    kind = "seq2seq"

    def make_criterion(self):
        return CrossEntropyLoss(ignore_id=PAD)

    def read_texts(self, text, target):
        source = frame(self.tokenizers[0], text)
        check_length(source, self.longest(), ", including begin and end")
        note = GIVEN
        if target is None and self.answer(text.strip()):
            target = self.clean(self.answer(text.strip()), "target")
            note = RIGHT
        if target is None:
            target_ids = self.translate(source)
            note = PREDICTED
        else:
            target_ids = frame(self.tokenizers[1], target)
            check_length(target_ids, self.longest(), ", including begin and end", "target")
        read, expected = target_ids[:-1], target_ids[1:]
        source_labels, labels = (self.labels_of(tokenizer, FRAME) for tokenizer in self.tokenizers)
        tokens = {"source": [pick(source_labels, source)], "target": [pick(labels, read)],
                  "targets": [pick(labels, expected)], "vocabulary": labels, "note": note}
        if source_labels != labels:
            tokens["source_vocabulary"] = source_labels
        return (source[None], read[None]), expected[None], tokens

    def longest(self):
        return self.model.source_positions.max_len

    def translate(self, source):
        """Returns the model's own target, each token the most likely one, with [begin] and [end]."""
        memory = self.model.encode(source[None])
        target = [BOS]
        while target[-1] != EOS and len(target) < min(2 * len(source) + 8, self.longest()):
            logits = self.model.decode(np.array([target]), memory, source[None])[0, -1]
            logits[[PAD, BOS]] = -np.inf
            target.append(int(logits.argmax()))
        return np.array(target)


class EncoderExample(Example):
    """The common part of the encoder-only models, which read [CLS] text [SEP]."""

    def vocabulary(self):
        return [visible(self.reader.name(i)) for i in range(self.reader.vocab_size)]

    def read_ids(self, text):
        """Returns [CLS] text [SEP] as ids."""
        special = self.reader.max_len - self.reader.max_text_tokens
        check_length(self.reader.pieces(text), self.reader.max_text_tokens, f" besides {counted(special, 'special token')}")
        return self.reader.read(text)

    def logits(self, ids):
        return self.model(ids[None])[0]


class ClassifierExample(EncoderExample):
    """A classifier of texts: the target is a class."""

    kind = "classifier"

    @property
    def is_binary(self):
        return self.model.output.d_out == 1     # one logit for two classes

    def make_criterion(self):
        return BinaryCrossEntropyLoss() if self.is_binary else CrossEntropyLoss()

    def clean(self, text, name):
        return text if name == "target" else super().clean(text, name)

    def read_texts(self, text, target):
        ids = self.read_ids(text)
        note = GIVEN
        if target is None:
            target = self.answer(text.strip())
            note = RIGHT
        if target is None:
            logits = self.logits(ids)
            target = self.labels[int(logits > 0) if self.is_binary else int(logits.argmax())]
            note = PREDICTED
        number = find_label(target.strip(), self.labels, "class")
        vocabulary = self.vocabulary()
        tokens = {"source": [pick(vocabulary, ids)], "target": [[self.labels[number]]], "vocabulary": vocabulary,
                  "classes": list(self.labels), "note": note}
        return (ids[None],), np.array([number]), tokens


class TaggerExample(EncoderExample):
    """A tagger of words: the target is a tag for each word."""

    kind = "tagger"

    def clean(self, text, name):
        return text if name == "target" else super().clean(text, name)

    def read_texts(self, text, target):
        words = text.split()
        ids, positions = self.reader.read_words(words)
        if not positions.all():
            raise ValueError(f"the word {shorten(words[int(positions.argmin())])!r} does not fit into the "
                             f"{self.reader.max_len:,} tokens that the model reads, or has no token; shorten the text")
        if target is None:
            tags = self.logits(ids)[positions].argmax(-1)
        else:
            tags = [find_label(tag, self.labels, "tag") for tag in target.split()]
        if len(tags) != len(words):
            raise ValueError(f"the target has {counted(len(tags), 'tag')} and the text has {counted(len(words), 'word')}; "
                             "give one tag for each word")
        targets = np.full(len(ids), IGNORE)
        targets[positions] = tags
        vocabulary = self.vocabulary()
        tokens = {"source": [pick(vocabulary, ids)], "target": [pick(self.labels, targets)], "vocabulary": vocabulary,
                  "classes": list(self.labels), "note": PREDICTED if target is None else GIVEN}
        return (ids[None],), targets[None], tokens


class MaskedWordExample(EncoderExample):
    """A masked language model: the target is the word at each [MASK]."""

    kind = "mlm"

    def clean(self, text, name):
        if self.words is None:
            return text
        return " [MASK] ".join(super(MaskedWordExample, self).clean(part, name) if part.strip() else ""
                               for part in text.replace("[mask]", "[MASK]").split("[MASK]"))

    def read_texts(self, text, target):
        ids = self.reader.read_masked(text)
        positions = np.flatnonzero(ids == MASK)
        if target is None:
            logits = self.logits(ids)[positions]
            logits[:, :SPECIAL] = -np.inf
            words = logits.argmax(-1)
        else:
            words = self.reader.pieces(target)
        if len(words) != len(positions):
            raise ValueError(f"the target has {counted(len(words), 'token')} and the text has {len(positions)} [MASK]; give "
                             "one token for each")
        targets = np.full(len(ids), IGNORE)
        targets[positions] = words
        vocabulary = self.vocabulary()
        tokens = {"source": [pick(vocabulary, ids)], "target": [pick(vocabulary, targets)], "vocabulary": vocabulary,
                  "note": PREDICTED if target is None else GIVEN}
        return (ids[None],), targets[None], tokens


def check_string(text, name):
    if not isinstance(text, str):
        raise ValueError(f"the {name} must be a string, got {type(text).__name__}; give a text")


def check_length(ids, most, special="", name="text"):
    if not len(ids):
        raise ValueError(f"the {name} has no token that the model reads; give at least one word")
    if len(ids) > most:
        raise ValueError(f"the {name} has {counted(len(ids), 'token')}{special}, but the model reads at most {most:,}; "
                         "shorten it")


def find_label(name, labels, what):
    if name not in labels:
        raise ValueError(f"{shorten(name)!r} is not a {what} of this model; its labels are {', '.join(labels)}")
    return labels.index(name)


def shorten(text, length=40):
    return text if len(text) <= length else text[:length] + "..."


def visible(piece):
    """Returns the label of a token: its text without the space before a word; other whitespace becomes visible."""
    if piece.strip():
        return piece.removeprefix(" ")
    return "".join(VISIBLE.get(character, character) for character in piece)


def pick(labels, ids):
    """Returns the labels of ids; the label of an ignored target is empty."""
    return ["" if i == IGNORE else labels[i] for i in ids]


EXAMPLES = {"lm": LanguageModelExample, "seq2seq": PairsExample, "text2text": PairsExample,
            "classifier": ClassifierExample, "tagger": TaggerExample, "mlm": MaskedWordExample}
TEXTS = {"lm": ["The cat sat", "the cat sat"], "seq2seq": ["planet", "March 3, 1999"], "text2text": ["sort: planet"],
         "classifier": ["The film was not good."], "tagger": ["yesterday Ashbury smiled at the crowd ."],
         "mlm": ["The [MASK] is a name."]}


def from_run(path, text=None, target=None):
    """Returns the Example of a run that `train` saved. Without a text it starts with a short one that the model can read.

    Raises: ValueError if the file holds no run, or if the model cannot read the text.
    """
    run = load_run(path)
    reader = run.reader if run.kind in ENCODERS else None
    labels = run.labels if run.kind in ("classifier", "tagger") else None
    tokenizers = run.tokenizers if len(run.tokenizers) > 1 else run.tokenizers * 2
    title = f"{TASKS[run.kind].title.capitalize()}, after {counted(run.meta['step'], 'step')} of training"
    example = EXAMPLES[run.kind](run.model, tokenizers, text, target, title=title, labels=labels, reader=reader)
    example.kind = run.kind
    if text is None:
        example.text = first_readable(example, target)
    example.read()
    return example


def first_readable(example, target):
    """Returns a short text that the model can read: a sentence, or else some of its tokens."""
    tokenizer = example.tokenizers[0]
    tokens = tokenizer.decode(np.arange(max(tokenizer.vocab_size - 4, 0), tokenizer.vocab_size)).strip()
    texts = [*TEXTS[example.kind], f"[MASK] {tokens}" if example.kind == "mlm" else tokens]
    for text in texts:
        try:
            example.read(text, target)
            return text
        except ValueError as error:
            problem = error
    raise ValueError(f"this model cannot read the text that the explorer starts with; give one with --text ({problem})")
