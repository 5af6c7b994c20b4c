"""Byte-pair encoding: tokens that grow out of the bytes of a text, the most frequent neighbours first."""

import heapq
import operator
import re
from collections import Counter, defaultdict

import numpy as np

# Letters, digits or punctuation after an optional space; whitespace, which leaves its last space to what follows.
PIECES = re.compile(r" ?[^\W\d_]{1,63}| ?\d{1,63}| ?(?:[^\w\s]|_){1,63}|\s{1,64}(?!\S)|\s")
LONGEST = 256                                   # bytes: a piece has at most 64 characters of at most 4


class BytePairTokenizer:
    """Ids 0 to 255 are the bytes of UTF-8, id 256 + i is merge i: two smaller ids. No text is unknown to it.

    A text is first cut into pieces, which no merge crosses; they have at most 64 characters, so that
    a text without spaces is quick too.

    Parameters:
        merges : list of (left id, right id)

    Raises:
        ValueError if a merge is not a new pair of the ids before it.

    Source: Sennrich, Haddow and Birch 2016, algorithm 1; on bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, merges):
        self.ranks, self.cache = {}, {}         # pair -> its place among the merges; piece -> ids
        self.tokens = [bytes([i]) for i in range(256)]
        for pair in merges:
            check_merge(pair, self.ranks)
            left, right = pair
            self.ranks[left, right] = len(self.ranks)
            self.tokens.append(self.tokens[left] + self.tokens[right])
            if len(self.tokens[-1]) > LONGEST:
                raise ValueError(f"merge {len(self.ranks) - 1} makes a token of {len(self.tokens[-1])} bytes, but a "
                                 f"piece has at most {LONGEST}; pass the merges of a trained tokenizer")

    @classmethod
    def train(cls, text, merges=1000, progress=None):
        """Merges the most frequent pair again and again, the smallest among equals, as long as one occurs twice.

        There may thus be fewer merges than asked for. `progress()` is called after each.
        """
        check_training(text, "merges", merges, 0)
        counts, found = PairCounts(cut(text)), []
        while len(found) < merges and (pair := counts.pop()):
            counts.merge(pair, 256 + len(found))
            found.append(pair)
            if progress:
                progress()
        return cls(found)

    @property
    def vocab_size(self):
        return len(self.tokens)

    @property
    def merges(self):
        return list(self.ranks)

    def encode(self, text):
        pieces = cut(text)
        for piece in set(pieces).difference(self.cache):
            self.cache[piece] = self.apply_merges(list(piece.encode()))
        return np.array([i for piece in pieces for i in self.cache[piece]], np.int64)

    def apply_merges(self, ids):
        """Merges the pair of the lowest rank, the leftmost among equals, until none is left."""
        none = len(self.ranks)
        ranks = [self.ranks.get(pair, none) for pair in zip(ids, ids[1:])]
        while (rank := min(ranks, default=none)) < none:
            i = ranks.index(rank)
            start = max(i - 1, 0)
            ids[i:i + 2] = [256 + rank]
            ranks[start:i + 2] = [self.ranks.get(pair, none) for pair in zip(ids[start:i + 1], ids[start + 1:i + 2])]
        return ids

    def decode(self, ids):
        """The text. Bytes that are no whole character, as where a generation was cut inside one, become U+FFFD."""
        return b"".join(self.tokens[i] for i in check_ids(ids, self.vocab_size)).decode(errors="replace")

    def to_json(self):
        return {"kind": "bpe", "merges": [list(pair) for pair in self.merges]}


class PairCounts:
    """How often each pair of neighbouring ids occurs in the pieces of a text, kept right while pairs are merged."""

    def __init__(self, pieces):
        repeats = Counter(pieces)
        self.pieces, self.repeats = [list(piece.encode()) for piece in repeats], list(repeats.values())
        self.counts = defaultdict(int)
        self.places = defaultdict(set)          # pair -> the pieces that hold it or once held it
        for place, ids in enumerate(self.pieces):
            self.add(ids, place)
        self.heap = [(-count, pair) for pair, count in self.counts.items()]
        heapq.heapify(self.heap)

    def pop(self):
        """Takes out the most frequent pair, the smallest among equals; None if no pair occurs twice."""
        heap = self.heap        # each pair once, its count up to date or too high: later merges can only lower it
        while heap and -heap[0][0] != self.counts[heap[0][1]]:
            heapq.heapreplace(heap, (-self.counts[heap[0][1]], heap[0][1]))
        return heapq.heappop(heap)[1] if heap and heap[0][0] <= -2 else None

    def merge(self, pair, new):
        """Puts the id `new` wherever the pair stands; only the pairs around those places are counted again."""
        made = set()
        for place in self.places.pop(pair):
            ids, i = self.pieces[place], -1
            while (i := find(ids, pair, i + 1)) is not None:
                start = max(i - 1, 0)
                for old in zip(ids[start:i + 2], ids[start + 1:i + 3]):
                    self.counts[old] -= self.repeats[place]
                ids[i:i + 2] = [new]
                made.update(self.add(ids[start:i + 2], place))
        for pair in made:
            heapq.heappush(self.heap, (-self.counts[pair], pair))

    def add(self, ids, place):
        pairs = list(zip(ids, ids[1:]))
        for pair in pairs:
            self.counts[pair] += self.repeats[place]
            self.places[pair].add(place)
        return pairs


def find(ids, pair, start):
    """The first place of a pair at or after start, or None; list.index is several times quicker than a loop."""
    left, right = pair
    try:
        i = ids.index(left, start, -1)
        while ids[i + 1] != right:
            i = ids.index(left, i + 1, -1)
        return i
    except ValueError:
        return None


def cut(text):
    """The pieces of a text that can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{text[error.start]!r} at position {error.start:,} is half a character, as Python makes them "
                         "of bytes that are not UTF-8; leave it out, or convert the text to UTF-8") from error
    return PIECES.findall(text)


def check_merge(pair, known):
    ids = 256 + len(known)
    if not (isinstance(pair, (list, tuple)) and len(pair) == 2
            and all(type(part) is int and 0 <= part < ids for part in pair) and tuple(pair) not in known):
        raise ValueError(f"merge {len(known)} is {pair!r}, but it must be a new pair of the ids before it, 0 to "
                         f"{ids - 1}; pass the merges of a trained tokenizer in their order")


def check_training(text, name, value, least):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}; 1000 is a good start")
    if not text:
        raise ValueError("the text to train on has 0 characters, but at least 1 is needed; pass a longer text")


def check_ids(ids, size):
    """The ids as a list of ints, each in [0, size): Python would take negative ones from the end."""
    ids = [operator.index(i) for i in ids]
    for i in ids:
        if not 0 <= i < size:
            raise ValueError(f"the id {i} is not in the vocabulary, 0 to {size - 1}; "
                             "decode with the tokenizer that the ids belong to")
    return ids
