"""Pairs of texts, a source and its target, as batches for sequence-to-sequence training."""

from bisect import bisect

import numpy as np

from .batches import PAD, Batches
from .text import read_text

BOS, EOS = 1, 2                         # behind PAD = 0; text ids are the tokenizer's ids + 3


def frame(tokens, text):
    """The ids of a text between begin and end: [BOS, *ids + 3, EOS]."""
    return np.concatenate(([BOS], tokens.encode(text) + 3, [EOS]))


def unframe(tokens, ids):
    """The text of ids up to the first EOS; PAD and BOS are left out."""
    ids = np.asarray(ids, np.int64)
    ids = ids[:np.append(np.flatnonzero(ids == EOS), len(ids))[0]]
    return tokens.decode(ids[ids > EOS] - 3)


def pad(rows):
    """(B, longest) ids from B arrays of ids, padded with PAD on the right."""
    padded = np.full((len(rows), max(map(len, rows))), PAD)
    for line, row in zip(padded, rows):
        line[:len(row)] = row
    return padded


class Pairs(Batches):
    """Batches ((source, target_in), target_out) of framed, padded ids; target_out is target_in one token later.

    Parameters:
        pairs : list of (source text, target text)
        source_tokens, target_tokens : tokenizers with encode(text) -> int array
        batch_size, seed, pool : as Batches
    """

    def __init__(self, pairs, source_tokens, target_tokens, batch_size, seed, pool=100):
        sources, targets = zip(*pairs) if pairs else ((), ())
        sides = [[frame(source_tokens, text) for text in sources], [frame(target_tokens, text) for text in targets]]
        super().__init__(sides, batch_size, seed, pool)

    def assemble(self, rows):
        source, target = self.padded(0, rows), self.padded(1, rows)
        return (source, target[:, :-1]), target[:, 1:]


def read_pairs(source_path, target_path):
    """(pairs, report) of two UTF-8 files in which line n of one belongs to line n of the other.

    Pairs with an empty side are dropped; the report is a list of sentences that say so. Raises ValueError if a file
    cannot be read, the line counts differ, or no pair is left.
    """
    sources, targets = [read_text(path).removesuffix("\n").split("\n") for path in (source_path, target_path)]
    if len(sources) != len(targets):    # split("\n"), as splitlines would also split inside a line, at U+2028 and such
        raise ValueError(f"{str(source_path)!r} has {len(sources):,} lines but {str(target_path)!r} has "
                         f"{len(targets):,}; line n of one must belong to line n of the other")
    pairs = list(zip(sources, targets))
    empty = [line for line, pair in enumerate(pairs, 1) if not all(map(str.strip, pair))]
    if not empty:
        return pairs, []
    if len(empty) == len(pairs):
        raise ValueError(f"each of the {len(pairs):,} lines is empty in {str(source_path)!r} or in "
                         f"{str(target_path)!r}; name files in which the same line has text on both sides")
    report = f"dropped {len(empty):,} of {len(pairs):,} pairs: one side is empty (first: line {empty[0]:,})"
    return [pair for pair in pairs if all(map(str.strip, pair))], [report]


def limit_length(pairs, source_tokens, target_tokens, max_len, too_long="drop"):
    """(pairs, report) with at most max_len tokens on each side, begin and end included.

    A pair that has more is dropped, or with too_long="cut" its long sides are cut at the end of a token; the report
    is a list of sentences that say so. Raises ValueError if nothing is left.
    """
    if max_len < 3 or too_long not in ("drop", "cut"):
        raise ValueError(f"max_len is {max_len}, too_long {too_long!r}; give at least 3 and either 'drop' or 'cut'")
    tokens = source_tokens, target_tokens
    lengths = [max(len(side.encode(text)) + 2 for side, text in zip(tokens, pair)) for pair in pairs]
    kept = [pair for pair, length in zip(pairs, lengths) if length <= max_len]
    if len(kept) == len(pairs):
        return kept, []
    report = (f"{len(pairs) - len(kept):,} of {len(pairs):,} pairs: one side has more than {max_len} tokens, begin and "
              f"end included (longest: {max(lengths):,})")
    if too_long == "cut":
        return [tuple(map(cut, tokens, pair, [max_len - 2] * 2)) for pair in pairs], [f"cut {report}"]
    if not kept:
        raise ValueError(f"none of the {len(pairs):,} pairs has at most {max_len} tokens on each side, begin and end "
                         f"included; the shortest has {min(lengths):,}: raise max_len, or cut instead of dropping")
    return kept, [f"dropped {report}"]


def cut(tokens, text, room):
    """The beginning of a text, of at most `room` tokens."""
    ids = tokens.encode(text)
    if len(ids) <= room:
        return text
    start = tokens.decode(ids[:room]).rstrip("\ufffd")      # a token may end inside a character
    if text.startswith(start) and len(tokens.encode(start)) <= room:
        return start
    return text[:bisect(range(len(text)), room, key=lambda n: len(tokens.encode(text[:n]))) - 1]    # <unk> is in it
