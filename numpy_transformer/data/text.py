"""Running text: where it comes from, and windows of it as batches."""

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
        state = "has only blank lines" if text else "is empty"
        raise ValueError(f"{str(path)!r} {state}; name a file that contains text")
    return text


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
        return windows(self.train, rng.integers(0, len(self.train) - self.length, self.batch_size), self.length)

    def validation(self):
        """The whole held-out part as a list of batches."""
        return consecutive_windows(self.held_out, self.length)


def windows(ids, starts, length):
    """((inputs,), targets) of the windows that begin at starts."""
    window = ids[starts[:, None] + np.arange(length + 1)]
    return (window[:, :-1],), window[:, 1:]


def consecutive_windows(ids, length):
    """Batches of windows that hold every token behind the first once as a target; the last window may be shorter."""
    if len(ids) < 2:
        raise ValueError(f"a text of {len(ids)} tokens has nothing to foretell; use a longer one")
    starts = np.arange(0, len(ids) - length, length)
    batches = [windows(ids, starts[i:i + 64], length) for i in range(0, len(starts), 64)]
    rest = (len(ids) - 1) % length
    return batches + [windows(ids, np.array([len(ids) - 1 - rest]), rest)] if rest else batches
