"""Pairs of texts, a source and its target, as batches for sequence-to-sequence training."""

from bisect import bisect
from typing import NamedTuple

import numpy as np

from .batches import PAD, Batches
from .plurals import counted
from .text import read_text

BOS, EOS = 1, 2                         # after PAD = 0; text ids are the tokenizer's ids + 3


class Marks(NamedTuple):
    """The special ids of an encoder-decoder's texts.

    begin, end : the first and the last id of a target; a source has the same end
    first : added to the tokenizer's ids, which makes room for the special ones
    source : the ids with which a source begins
    pad : the id of padding tokens
    """

    begin: int = BOS
    end: int = EOS
    first: int = EOS + 1
    source: tuple = (BOS,)
    pad: int = PAD


def marks(tokens):
    """Returns the Marks of a tokenizer. That of a published model, such as T5, has its own."""
    return getattr(tokens, "marks", Marks())


def frame(tokens, text):
    """Returns the ids of a target between its first and its last id: [BOS, *ids + 3, EOS] with our own tokenizers."""
    own = marks(tokens)
    return np.concatenate(([own.begin], tokens.encode(text) + own.first, [own.end])).astype(np.intp)


def frame_source(tokens, text):
    """Returns the ids of a source: those of `frame` with our own tokenizers, and [*ids, end] for T5."""
    own = marks(tokens)
    return np.concatenate((own.source, tokens.encode(text) + own.first, [own.end])).astype(np.intp)


def unframe(tokens, ids):
    """Returns the text of the ids before the first end, without padding and special ids."""
    own = marks(tokens)
    ids = np.asarray(ids, np.intp)
    ids = ids[:np.append(np.flatnonzero(ids == own.end), len(ids))[0]]
    return tokens.decode(ids[ids >= own.first] - own.first)


def pad(rows, pad_id=PAD):
    """Returns B arrays of ids as one array (B, longest row), padded on the right."""
    padded = np.full((len(rows), max(map(len, rows))), pad_id)
    for line, row in zip(padded, rows):
        line[:len(row)] = row
    return padded


class Pairs(Batches):
    """Batches ((source, target_in), target_out) of padded ids; target_out is target_in shifted by one token.

    Parameters:
        pairs : list of (source text, target text)
        source_tokens, target_tokens : tokenizers with encode(text) -> int array
        batch_size, seed, pool : as for Batches

    Shape: source (B, S), target_in and target_out (B, T).
    """

    def __init__(self, pairs, source_tokens, target_tokens, batch_size, seed, pool=100):
        sources = [frame_source(source_tokens, source) for source, _ in pairs]
        targets = [frame(target_tokens, target) for _, target in pairs]
        super().__init__([sources, targets], batch_size, seed, pool, marks(target_tokens).pad)

    def assemble(self, rows):
        source, target = self.padded(0, rows), self.padded(1, rows)
        return (source, target[:, :-1]), target[:, 1:]


def read_pairs(source_path, target_path):
    """Reads (pairs, report) from two UTF-8 files; line n of one is the translation of line n of the other.

    Pairs with an empty side are dropped. The report is a list of sentences about what was dropped.

    Raises:
        ValueError if a file cannot be read, if the files differ in their number of lines, or if no pair is left.
    """
    # str.splitlines would also split inside a line, at U+2028 and similar characters
    sources, targets = [read_text(path).removesuffix("\n").split("\n") for path in (source_path, target_path)]
    if len(sources) != len(targets):
        raise ValueError(f"{str(source_path)!r} has {counted(len(sources), 'line')} but {str(target_path)!r} has "
                         f"{len(targets):,}; line n of one must belong to line n of the other")
    pairs = list(zip(sources, targets))
    empty = [line for line, pair in enumerate(pairs, 1) if not all(map(str.strip, pair))]
    if not empty:
        return pairs, []
    if len(empty) == len(pairs):
        raise ValueError(f"no line has text in both {str(source_path)!r} and {str(target_path)!r}; give files in which "
                         "line n of one belongs to line n of the other")
    report = f"dropped {len(empty):,} of {len(pairs):,} pairs: one side is empty (first: line {empty[0]:,})"
    return [pair for pair in pairs if all(map(str.strip, pair))], [report]


def limit_length(pairs, source_tokens, target_tokens, max_len, too_long="drop"):
    """Limits each side of the pairs to max_len tokens, BOS and EOS included; returns (pairs, report).

    Parameters:
        pairs : list of (source text, target text)
        source_tokens, target_tokens : tokenizers
        max_len : int, at least 3
        too_long : "drop" drops a pair with a longer side; "cut" truncates its long sides at the end of a token

    The report is a list of sentences about what was dropped or truncated.

    Raises:
        ValueError if max_len or too_long is invalid, or if no pair is left.
    """
    if max_len < 3 or too_long not in ("drop", "cut"):
        raise ValueError(f"max_len is {max_len} and too_long {too_long!r}; give at least 3 and either 'drop' or 'cut'")
    tokens = source_tokens, target_tokens
    lengths = [max(len(side.encode(text)) + 2 for side, text in zip(tokens, pair)) for pair in pairs]
    kept = [pair for pair, length in zip(pairs, lengths) if length <= max_len]
    if len(kept) == len(pairs):
        return kept, []
    report = (f"{len(pairs) - len(kept):,} of {len(pairs):,} pairs: one side has more than {max_len} tokens, including "
              f"begin and end (longest: {max(lengths):,})")
    if too_long == "cut":
        return [tuple(truncate(side, text, max_len - 2) for side, text in zip(tokens, pair)) for pair in pairs], [
            f"cut {report}"]
    if not kept:
        raise ValueError(f"no pair has at most {max_len} tokens on each side, including begin and end; the shortest of "
                         f"{len(pairs):,} has {min(lengths):,}: raise max_len, or cut instead of dropping")
    return kept, [f"dropped {report}"]


def truncate(tokens, text, max_tokens):
    """Returns the longest beginning of a text with at most max_tokens tokens that ends at the end of a token."""
    ids = tokens.encode(text)
    if len(ids) <= max_tokens:
        return text
    start = tokens.decode(ids[:max_tokens]).rstrip("\ufffd")    # a token may end inside a character
    if text.startswith(start) and len(tokens.encode(start)) <= max_tokens:
        return start
    # the decoded text differs from the original, as with <unk>: search for the longest beginning that fits
    fits = bisect(range(len(text)), max_tokens, key=lambda n: len(tokens.encode(text[:n])))
    return text[:fits - 1]
