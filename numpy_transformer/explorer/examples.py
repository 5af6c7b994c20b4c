"""What the explorer shows: a model, its loss, and how a text and its target become arrays for them."""

import numpy as np

from ..data import PAD, frame, frame_source, marks, read_prompt, token_name
from ..data.batches import IGNORE
from ..data.reader import plain_words
from ..layers import CrossEntropyLoss
from .wording import counted, sentence

FRAME = ("[pad]", "[begin]", "[end]")           # labels of PAD, BOS and EOS
COMMAND = "numpy-transformer explore"
LONGEST_SOURCE = 512                            # tokens, for a model that limits no length, such as T5
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥"}


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

    Attributes: these, and `criterion`, and `kind`, as in `train KIND`, and `command`, which opens the explorer on this model.
    `variants` are other models for the same texts.
    """

    kind = None
    command = COMMAND
    variants = {}                               # {name: function that returns another model for the same texts}

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

    def variant(self, name):
        """Returns the variant of this name, which is made once."""
        made = vars(self).setdefault("made", {})
        if name not in made:
            made[name] = self.variants[name]().eval()
        return made[name]

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
            raise ValueError(sentence("errors.examples.empty"))
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
            problem = "unknown_word" if unknown else "no_word"
            raise ValueError(sentence(f"errors.examples.{problem}", name=side_name(name), word=shorten((unknown or [""])[0]),
                                      count=counted("word", len(self.words)), words=", ".join(self.words)))
        return "".join(f" {word}" for word in words)

    def labels_of(self, tokenizer, size, special=()):
        """Returns the labels of `size` ids: those of special ids, the tokens of the tokenizer, and empty ones at the end.

        The vocabulary of a published model may be larger than that of its tokenizer.
        """
        labels = [*special, *(visible(token_name(tokenizer, i)) for i in range(tokenizer.vocab_size))]
        return [*labels, *[""] * (size - len(labels))]


class LanguageModelExample(Example):
    """A language model: the target of each token is the next one."""

    kind = "lm"

    def read_texts(self, text, target):
        tokenizer, most = self.tokenizers[0], self.model.max_len
        ids = read_prompt(tokenizer, text)
        check_length(ids, most)
        targets = np.append(ids[1:], IGNORE)
        if target is not None:
            targets = self.read_target(ids, tokenizer.encode(target))
        if (targets == IGNORE).all():
            raise ValueError(sentence("errors.examples.no_next"))
        labels = self.labels_of(tokenizer, len(self.model.embedding.weight.data))
        tokens = {"source": [labels_of_ids(labels, ids)], "target": [labels_of_ids(labels, targets)], "vocabulary": labels,
                  "note": note_on_targets("next" if target is None else "given")}
        return (ids[None],), targets[None], tokens

    def read_target(self, ids, target):
        """Returns the targets: one for each token, or the one that comes after the last token."""
        if len(target) == len(ids):
            return target
        if len(target) == 1:
            return np.append(ids[1:], target)
        raise ValueError(sentence("errors.examples.targets", targets=counted("token", len(target)), length=len(ids)))


class PairsExample(Example):
    """An encoder-decoder: the text is the source, and the target is its translation."""

    kind = "seq2seq"

    def make_criterion(self):
        return CrossEntropyLoss(ignore_id=PAD)

    def read_texts(self, text, target):
        source = frame_source(self.tokenizers[0], text)
        check_length(source, self.longest(), problem="length_framed")
        note = "given"
        if target is None and self.answer(text.strip()):
            target = self.clean(self.answer(text.strip()), "target")
            note = "right"
        if target is None:
            target_ids = self.translate(source)
            note = "predicted"
        else:
            target_ids = frame(self.tokenizers[1], target)
            check_length(target_ids, self.longest(), "target", "length_framed")
        read, expected = target_ids[:-1], target_ids[1:]
        embeddings = self.model.source_embedding, self.model.target_embedding
        source_labels, labels = (self.labels_of(tokenizer, len(embedding.weight.data), FRAME[:marks(tokenizer).first])
                                 for tokenizer, embedding in zip(self.tokenizers, embeddings))
        tokens = {"source": [labels_of_ids(source_labels, source)], "target": [labels_of_ids(labels, read)],
                  "targets": [labels_of_ids(labels, expected)], "vocabulary": labels, "note": note_on_targets(note)}
        if source_labels != labels:
            tokens["source_vocabulary"] = source_labels
        return (source[None], read[None]), expected[None], tokens

    def longest(self):
        positions = self.model.source_positions
        return LONGEST_SOURCE if positions is None else positions.max_len

    def translate(self, source):
        """Returns the model's own target, each token the most likely one, with [begin] and [end]."""
        own = marks(self.tokenizers[1])
        memory = self.model.encode(source[None])
        target = [own.begin]
        while target[-1] != own.end and len(target) < min(2 * len(source) + 8, self.longest()):
            logits = self.model.decode(np.array([target]), memory, source[None])[0, -1]
            logits[[PAD, own.begin]] = -np.inf
            target.append(int(logits.argmax()))
        return np.array(target)


def note_on_targets(origin):
    """Returns the sentence that says where the targets come from."""
    return sentence(f"step.note.{origin}")


def check_string(text, name):
    if not isinstance(text, str):
        raise ValueError(sentence("errors.examples.string", name=side_name(name), type=type(text).__name__))


def check_length(ids, most, name="text", problem="length", **values):
    """Raises ValueError unless a text has a token, and at most as many as the model reads.

    Parameters: problem, values : key of the sentence about a text that is too long, and what else it names
    """
    if not len(ids):
        raise ValueError(sentence("errors.examples.no_token", name=side_name(name)))
    if len(ids) > most:
        raise ValueError(sentence(f"errors.examples.{problem}", name=side_name(name), tokens=counted("token", len(ids)),
                                  most=most,
                                  **values))


def side_name(name):
    """Returns the word for "text" or "target"."""
    return sentence(f"errors.examples.{name}")


def shorten(text, length=40):
    return text if len(text) <= length else text[:length] + "..."


def visible(piece):
    """Returns the label of a token: its text without the space before a word; other whitespace becomes visible."""
    if piece.strip():
        return piece.removeprefix(" ")
    return "".join(VISIBLE.get(character, character) for character in piece)


def labels_of_ids(labels, ids):
    """Returns the labels of ids; the label of an ignored target is empty."""
    return ["" if i == IGNORE else labels[i] for i in ids]
