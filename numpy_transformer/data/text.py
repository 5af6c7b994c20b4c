"""Running text: where it comes from, its characters as ids, and windows of it as batches."""

from pathlib import Path

import numpy as np


def builtin_text():
    """About 465,000 characters of English prose that every Python carries: its own language reference."""
    from pydoc_data.topics import topics
    return "\n\n".join(topics[name] for name in sorted(topics))


def read_text(path):
    """The text of a UTF-8 file. Raises ValueError if it cannot be read, is not UTF-8 or is empty."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror}; name a readable text file") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is not UTF-8 (byte {error.object[error.start]:#04x} at offset "
                         f"{error.start:,}); convert it, for instance with iconv -t UTF-8") from error
    if not text.strip():
        raise ValueError(f"{str(path)!r} is empty; name a file with text to learn from")
    return text


class CharTokenizer:
    """One id for each distinct character of a text, in the characters' order."""

    def __init__(self, text):
        self.characters = sorted(set(text))
        self.ids = {character: i for i, character in enumerate(self.characters)}

    @property
    def vocab_size(self):
        return len(self.characters)

    def encode(self, text):
        try:
            return np.array([self.ids[character] for character in text], np.int64)
        except KeyError as error:
            raise ValueError(f"the character {error.args[0]!r} is not among the {self.vocab_size} of the text that the "
                             "tokenizer was made from; leave it out, or train on a text that has it") from error

    def decode(self, ids):
        return "".join(self.characters[i] for i in ids)


class TextWindows:
    """Windows of `length` tokens, the targets being the same windows one token later.

    The first nine tenths of the ids are for training, the rest for validation. A training batch
    depends on seed and step alone, never on what was drawn before.
    """

    def __init__(self, ids, length, batch_size, seed):
        cut = len(ids) * 9 // 10
        self.train, self.held_out = ids[:cut], ids[cut:]
        self.length, self.batch_size, self.seed = length, batch_size, seed
        if len(self.held_out) < length + 1:
            raise ValueError(f"a text of {len(ids):,} tokens is too short: its last tenth must hold a window of "
                             f"{length + 1} tokens, so {10 * (length + 1):,} are needed; use a longer text")

    def batch(self, step):
        """((inputs,), targets) of a training step."""
        rng = np.random.default_rng([self.seed, step])
        return self.windows(self.train, rng.integers(0, len(self.train) - self.length, self.batch_size))

    def validation(self):
        """The held-out part, but for a last incomplete window, as a list of batches of windows side by side."""
        starts = np.arange(0, len(self.held_out) - self.length, self.length)
        return [self.windows(self.held_out, starts[i:i + 64]) for i in range(0, len(starts), 64)]

    def windows(self, ids, starts):
        window = ids[starts[:, None] + np.arange(self.length + 1)]
        return (window[:, :-1],), window[:, 1:]
