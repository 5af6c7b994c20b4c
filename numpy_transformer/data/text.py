"""Running text: the built-in text, text files, and windows of a text as batches."""

from pathlib import Path

import numpy as np

from .plurals import counted

MOST_LOGITS = 2 ** 24                           # 67 MB in float32


def builtin_text():
    """Returns the language reference that comes with Python: about 465,000 characters of English prose."""
    from pydoc_data.topics import topics
    return "\n\n".join(topics[name] for name in sorted(topics))


def read_text(path):
    """Returns the text of a UTF-8 file. Raises ValueError if it cannot be read, is not UTF-8 or is empty."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror}; give the path of a readable text "
                         "file") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is not UTF-8 (byte {error.object[error.start]:#04x} at offset "
                         f"{error.start:,}); convert it, for instance with iconv -t UTF-8") from error
    if not text.strip():
        state = "has only blank lines" if text else "is empty"
        raise ValueError(f"{str(path)!r} {state}; give a file that contains text")
    return text


class TextWindows:
    """Batches of windows of a text; the targets are the same windows shifted by one token.

    The first nine tenths of the ids are the training set, the last tenth is the validation set. A training batch
    depends only on the seed and the step, so a resumed run draws the same batches.

    Parameters:
        ids : int array, the whole text as ids of a tokenizer
        length : int, tokens in a window
        batch_size : int, windows in a training batch
        seed : int
        vocab_size : int; a large one makes the batches of the validation set smaller, because of their logits

    Raises:
        ValueError if the validation set is shorter than one window.
    """

    def __init__(self, ids, length, batch_size, seed, vocab_size=1):
        split = len(ids) * 9 // 10
        self.train, self.held_out = ids[:split], ids[split:]
        self.length = length
        self.batch_size = batch_size
        self.seed = seed
        self.vocab_size = vocab_size
        if len(self.held_out) < length + 1:
            raise ValueError(f"a text of {counted(len(ids), 'token')} is too short: its last tenth must hold a window "
                             f"of {length + 1} tokens, so {10 * (length + 1):,} are needed; use a longer text")

    def __repr__(self):
        return (f"TextWindows({len(self.train):,} training tokens, {len(self.held_out):,} validation tokens, "
                f"length={self.length}, batch_size={self.batch_size})")

    def batch(self, step):
        """Returns the batch ((inputs,), targets) of a training step, each (batch_size, length)."""
        rng = np.random.default_rng([self.seed, step])
        return windows(self.train, rng.integers(0, len(self.train) - self.length, self.batch_size), self.length)

    def validation(self):
        """Returns the whole validation set as a list of batches."""
        return consecutive_windows(self.held_out, self.length, self.vocab_size)


def windows(ids, starts, length):
    """Returns ((inputs,), targets) of the windows that begin at `starts`."""
    window = ids[starts[:, None] + np.arange(length + 1)]
    return (window[:, :-1],), window[:, 1:]


def rows_in_batch(logits_in_row):
    """Returns the number of rows that are computed together outside training: 64, or fewer if they have many logits."""
    return max(1, min(64, MOST_LOGITS // max(1, int(logits_in_row))))


def consecutive_windows(ids, length, vocab_size=1):
    """Returns batches of windows in which each token but the first is a target once; the last window can be shorter."""
    if len(ids) < 2:
        raise ValueError(f"a text of {counted(len(ids), 'token')} has no next token to predict; use a longer one")
    starts = np.arange(0, len(ids) - length, length)
    rows = rows_in_batch(length * vocab_size)
    batches = [windows(ids, starts[i:i + rows], length) for i in range(0, len(starts), rows)]
    rest = (len(ids) - 1) % length
    if rest:
        batches.append(windows(ids, np.array([len(ids) - 1 - rest]), rest))
    return batches
