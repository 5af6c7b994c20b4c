"""One text that the model reads in every frame: what it predicts there, where it attends, and what it writes."""

import copy

import numpy as np

from ...data import frame, frame_source, marks, unframe
from ...decoding import generate, greedy_decode
from ...layers import Softmax
from ...tasks.encoder import ENCODERS
from ...tasks.runs import PAIRS
from ..naming import STACKS
from ..predictions import KINDS, title_of
from ..runs import EXAMPLES

MOST_TOKENS = 24                                # of the text, and of a target
TRIED = 200                                     # texts of the task that are looked at
GUESSES = 3                                     # most likely tokens that are shown at each position
MOST_CLASSES = 8                                # of a classifier
PROMPT, WRITTEN = 8, 24                         # tokens of a prompt, and of the text that continues it
LONGER = 4                                      # tokens that an answer may be longer than the right one
PROSE = 0.9                                     # share of letters and spaces in a text that is mostly words
MASKED = 5                                      # one word in so many is masked


class FixedExample:
    """A text with its targets, and a copy of the model that reads it.

    The copy shares the parameters, so it always has the weights of the training. Everything else is its own: it is in eval
    mode, its random generators are copies, and what it saves is not the training's.

    Parameters:
        example : Example of this copy
        text, target : str, as the Example reads them

    Attributes:
        kind : of FORMAT.md's predictions: "next token", "class", "tag" or "masked word"
        names : names of the possible predictions
        counted : positions in the flattened targets that the loss counts
        right : the right prediction at each of them
        prompt : ids that a language model continues
    """

    def __init__(self, example, text, target):
        self.example, self.model = example, example.model
        self.text, self.target = text, target
        self.inputs, targets, self.tokens = example.read(text, target)
        self.kind, names = next((kind, names) for cls, kind, names in KINDS if isinstance(self.model, cls))
        self.names = self.tokens[names]
        targets = np.ravel(targets)
        ignored = getattr(example.criterion, "ignore_id", None)
        self.counted = np.flatnonzero(targets != ignored) if ignored is not None else np.arange(len(targets))
        self.right = targets[self.counted]
        self.prompt = np.ravel(self.inputs[0])[:PROMPT].tolist()

    def __repr__(self):
        return f"FixedExample({self.text!r}, {self.target!r})"

    def probabilities(self):
        """Returns the probabilities (positions, names) at the positions that count, and [(name of the module, weights)]."""
        logits = np.asarray(self.model(*self.inputs), np.float64)
        if self.kind == "class" and logits.ndim == 1:       # one logit z means the two logits 0 and z
            logits = np.stack([np.zeros_like(logits), logits], -1)
        logits = logits.reshape(-1, logits.shape[-1])
        return Softmax().eval()(logits[self.counted]), self.attention()

    def attention(self):
        """Returns [(dotted name, weights (heads, queries, keys))] of the latest forward, of every attention that has them."""
        found = []
        for name, module in self.model.named_modules():
            weights = vars(module).get("weights")
            if isinstance(weights, np.ndarray) and weights.ndim == 4:
                found.append((name, weights[0]))
        return found

    def writes(self):
        """Returns the text that the model writes now, each token the most likely one; None if it writes none."""
        if self.example.kind == "lm":
            ids = generate(self.model, self.prompt, WRITTEN, temperature=0)
            return self.example.tokenizers[0].decode(ids[len(self.prompt):])
        if self.example.kind in PAIRS:
            tokens = self.example.tokenizers[1]
            longest = min(len(frame(tokens, self.target)) + LONGER, self.example.longest())
            ids = greedy_decode(self.model, self.inputs[0], marks(tokens).begin, marks(tokens).end, longest)
            return unframe(tokens, ids[0])
        return None

    def rows(self):
        """Returns for each position that counts what the model reads there, and the name of the right prediction."""
        if self.kind == "class":
            return [{"reads": "", "right": self.names[self.right[0]]}]
        read = self.tokens["target" if self.example.kind in PAIRS else "source"][0]
        return [{"reads": read[position], "right": self.names[right]} for position, right in zip(self.counted, self.right)]

    def layers(self):
        """Returns [{"name", "title", "queries", "keys"}] of every attention; the latter two are labels of tokens."""
        self.model(*self.inputs)
        both = all(hasattr(self.model, stack) for stack in STACKS)
        return [{"name": name, "title": title_of(name if both else name.partition(".")[2]), **self.labels(name, *weights.shape[1:])}
                for name, weights in self.attention()]

    def labels(self, name, queries, keys):
        source, target = self.tokens["source"][0], self.tokens["target"][0]
        sides = {"queries": source, "keys": source}
        if self.example.kind in PAIRS and not name.startswith("encoder"):
            sides = {"queries": target, "keys": source if "cross_attention" in name else target}
        for side, count in (("queries", queries), ("keys", keys)):
            if len(sides[side]) != count:
                sides[side] = [str(i) for i in range(count)]
        return sides

    def start(self):
        """Returns the text that a language model continues, or None."""
        return self.example.tokenizers[0].decode(self.prompt) if self.example.kind == "lm" else None


def example_of(task, model):
    """Returns the FixedExample of a task: a text of its validation or test set; None if the model can read none of them."""
    twin = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
    example = EXAMPLES[task.name](twin, pair_of(task.tokenizers), "", title="", labels=task.labels,
                                  reader=task.reader if task.name in ENCODERS else None)
    example.kind = task.name
    shortest = None
    for text, target in TEXTS[task.name](task):
        try:
            found = FixedExample(example, text, target)
        except ValueError:                      # this text cannot be read by this model
            continue
        length = max(len(side) for side in (*found.tokens["source"], *found.tokens["target"]))
        if length <= MOST_TOKENS:
            return found
        if shortest is None or length < shortest[0]:
            shortest = length, found
    return shortest and shortest[1]


def pair_of(tokenizers):
    return tokenizers if len(tokenizers) > 1 else tokenizers * 2


def texts_of_language_model(task):
    """Yields the beginnings of the validation rows, each from its first space on; those that are mostly words first."""
    tokenizer = task.tokenizers[0]
    texts = []
    for row in [row for inputs, _ in task.validation for row in inputs[0]][:TRIED]:
        spaces = [i + 1 for i in range(min(len(row) // 2, MOST_TOKENS)) if tokenizer.decode(row[i:i + 1]).isspace()]
        start = spaces[0] if spaces else 0
        texts.append(tokenizer.decode(row[start:start + MOST_TOKENS]))
    for text in sorted(texts, key=lambda text: not is_prose(text)):
        yield text, None


def is_prose(text):
    """Returns True if a text has only letters, with single spaces between its words and few other signs."""
    return "  " not in text and sum(letter.isalpha() or letter == " " for letter in text) > PROSE * len(text)


def pairs_of_task(task):
    """Yields (source, target) of the test set, those first that fit."""
    pairs = task.test[:TRIED]
    sizes = [max(len(frame_source(task.tokenizers[0], source)), len(frame(task.tokenizers[1], target)) - 1)
             for source, target in pairs]
    for i in sorted(range(len(pairs)), key=lambda i: sizes[i] > MOST_TOKENS):
        yield pairs[i]


def labeled_texts(task):
    for text, label in task.test[:TRIED]:
        yield text, task.labels[label]


def tagged_sentences(task):
    """Yields sentences with their tags; those with an entity first."""
    for words, tags in sorted(task.test[:TRIED], key=lambda sentence: set(sentence[1]) == {"O"}):
        yield " ".join(words), " ".join(tags)


def masked_texts(task):
    """Yields parts of the held-out text in which every fifth word is [MASK] if it is one token; mostly words come first."""
    reader = task.reader
    special = [reader.cls_id, *reader.end]
    room = min(MOST_TOKENS, reader.max_len) - len(special)
    ids = task.windows.held_out
    texts = [reader.tokens.decode(ids[start:start + room]) for start in range(0, min(len(ids), TRIED * room), room)]
    for text in sorted(texts, key=lambda text: not is_prose(text.strip())):
        words = text.split()
        hidden = [i for i in range(2, len(words), MASKED) if words[i].isalpha() and is_one_token(reader, words[i])]
        if len(hidden) > 1:
            mask = reader.special_names[reader.mask_id]
            yield (" ".join(mask if i in hidden else word for i, word in enumerate(words)),
                   " ".join(words[i] for i in hidden))


def is_one_token(reader, word):
    pieces = reader.pieces(word)
    return len(pieces) == 1 and pieces[0] not in reader.not_words


TEXTS = {"lm": texts_of_language_model, "seq2seq": pairs_of_task, "text2text": pairs_of_task, "classifier": labeled_texts,
         "tagger": tagged_sentences, "mlm": masked_texts}
