"""Byte-pair encoding: builds tokens from the bytes of a text by merging the most frequent pair of neighbors."""

import heapq
import operator
import re
from collections import Counter, defaultdict

import numpy as np

from ..file_checks import quoted

# Letters, digits or punctuation after an optional space; or whitespace, without a last space that precedes a word.
PIECES = re.compile(r" ?[^\W\d_]{1,63}| ?\d{1,63}| ?(?:[^\w\s]|_){1,63}|\s{1,64}(?!\S)|\s")
LONGEST = 256                                   # bytes: a piece has at most 64 characters of at most 4


class BytePairTokenizer:
    """Byte-pair tokenizer: ids 0 to 255 are the bytes of UTF-8, and id 256 + i is merge i, a pair of smaller ids.

    It can encode every text. A text is first split into pieces, and merges never cross the boundary of a piece. A piece
    has at most 64 characters, so that encoding is fast for texts without spaces too.

    Parameters:
        merges : list of (left id, right id)

    Raises:
        ValueError if a merge is not a new pair of smaller ids.

    Source: Sennrich, Haddow and Birch 2016, algorithm 1; on bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, merges):
        self.ranks = {}                         # pair -> its index in the merges
        self.cache = {}                         # piece -> ids
        self.tokens = [bytes([i]) for i in range(256)]
        for pair in merges:
            check_merge(pair, self.ranks)
            left, right = pair
            self.ranks[left, right] = len(self.ranks)
            self.tokens.append(self.tokens[left] + self.tokens[right])
            if len(self.tokens[-1]) > LONGEST:
                raise ValueError(f"merge {len(self.ranks) - 1} makes a token of {len(self.tokens[-1])} bytes, but a "
                                 f"piece has at most {LONGEST}; pass the merges of a trained tokenizer")

    def __repr__(self):
        return f"BytePairTokenizer(vocab_size={self.vocab_size})"

    @classmethod
    def train(cls, text, merges=1000, progress=None):
        """Returns a tokenizer trained on a text: the most frequent pair of ids is merged repeatedly.

        Ties go to the smallest pair. Training stops early when no pair occurs twice.

        Parameters:
            text : str
            merges : int, the largest number of merges; the vocabulary has 256 more tokens
            progress : function without arguments, called after each merge
        """
        check_training(text, "merges", merges, 0)
        counts = PairCounts(split_pieces(text))
        pairs = []
        while len(pairs) < merges:
            pair = counts.pop()
            if pair is None:
                break
            counts.merge(pair, 256 + len(pairs))
            pairs.append(pair)
            if progress:
                progress()
        return cls(pairs)

    @property
    def vocab_size(self):
        return len(self.tokens)

    @property
    def merges(self):
        return list(self.ranks)

    def encode(self, text):
        pieces = split_pieces(text)
        for piece in set(pieces).difference(self.cache):
            self.cache[piece] = self.apply_merges(list(piece.encode()))
        return np.array([i for piece in pieces for i in self.cache[piece]], np.intp)

    def apply_merges(self, ids):
        """Merges the pair of the lowest rank, the leftmost one first, until no known pair is left."""
        none = len(self.ranks)
        ranks = [self.ranks.get(pair, none) for pair in zip(ids, ids[1:])]
        while (rank := min(ranks, default=none)) < none:
            i = ranks.index(rank)
            start = max(i - 1, 0)
            ids[i:i + 2] = [256 + rank]
            ranks[start:i + 2] = [self.ranks.get(pair, none) for pair in zip(ids[start:i + 1], ids[start + 1:i + 2])]
        return ids

    def decode(self, ids):
        """Returns the text of ids. Bytes that do not form a character, as after a truncation, become U+FFFD."""
        return b"".join(self.tokens[i] for i in check_ids(ids, self.vocab_size)).decode(errors="replace")

    def to_json(self):
        return {"kind": "bpe", "merges": [list(pair) for pair in self.merges]}


class PairCounts:
    """Counts of each pair of neighboring ids in the pieces of a text, updated as pairs are merged."""

    def __init__(self, pieces):
        repeats = Counter(pieces)
        self.pieces = [list(piece.encode()) for piece in repeats]
        self.repeats = list(repeats.values())
        self.counts = defaultdict(int)
        self.pieces_with = defaultdict(set)     # pair -> indices of the pieces that contain it or once contained it
        for index, ids in enumerate(self.pieces):
            self.add(ids, index)
        self.heap = [(-count, pair) for pair, count in self.counts.items()]
        heapq.heapify(self.heap)

    def pop(self):
        """Removes and returns the most frequent pair, the smallest one in a tie; None if no pair occurs twice."""
        heap = self.heap        # each pair once, with its count or a higher one, because later merges only lower it
        while heap and -heap[0][0] != self.counts[heap[0][1]]:
            heapq.heapreplace(heap, (-self.counts[heap[0][1]], heap[0][1]))
        occurs_twice = heap and heap[0][0] <= -2
        return heapq.heappop(heap)[1] if occurs_twice else None

    def merge(self, pair, new):
        """Replaces the pair by the id `new` everywhere, and updates the counts of the pairs around it."""
        new_pairs = set()
        for index in self.pieces_with.pop(pair):
            ids = self.pieces[index]
            i = index_of_pair(ids, pair, 0)
            while i is not None:
                start = max(i - 1, 0)
                for old in zip(ids[start:i + 2], ids[start + 1:i + 3]):
                    self.counts[old] -= self.repeats[index]
                ids[i:i + 2] = [new]
                new_pairs.update(self.add(ids[start:i + 2], index))
                i = index_of_pair(ids, pair, i + 1)
        for new_pair in new_pairs:
            heapq.heappush(self.heap, (-self.counts[new_pair], new_pair))

    def add(self, ids, index):
        """Counts the pairs of ids, part of the piece with this index, and returns them."""
        pairs = list(zip(ids, ids[1:]))
        for pair in pairs:
            self.counts[pair] += self.repeats[index]
            self.pieces_with[pair].add(index)
        return pairs


def index_of_pair(ids, pair, start):
    """Returns the index of the first occurrence of a pair from start on, or None; list.index is faster than a loop."""
    left, right = pair
    try:
        i = ids.index(left, start, -1)
        while ids[i + 1] != right:
            i = ids.index(left, i + 1, -1)
        return i
    except ValueError:                          # list.index found no further left id
        return None


def split_pieces(text):
    """Returns the pieces of a text. Raises ValueError if it cannot be encoded as UTF-8."""
    check_unicode(text)
    return PIECES.findall(text)


def check_unicode(text):
    """Raises ValueError if the text cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{text[error.start]!r} at position {error.start:,} is half a character (a surrogate), as "
                         "Python reads bytes that are not UTF-8; leave it out, or convert the text to UTF-8") from error


def check_merge(pair, known):
    ids = 256 + len(known)
    is_pair = isinstance(pair, (list, tuple)) and len(pair) == 2
    has_smaller_ids = is_pair and all(type(part) is int and 0 <= part < ids for part in pair)
    if not has_smaller_ids or tuple(pair) in known:
        raise ValueError(f"merge {len(known)} is {quoted(pair)}, but it must be a new pair of smaller ids, 0 to "
                         f"{ids - 1}; pass the merges of a trained tokenizer in their order")


def check_training(text, name, value, least):
    is_int = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_int or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}; 1000 is a good start")
    if not text:
        raise ValueError("the training text is empty, but at least 1 character is needed; pass a longer text")


def check_ids(ids, size):
    """Returns the ids as a list of ints. Raises ValueError unless each is in [0, size), as Python allows negative indices."""
    ids = [operator.index(i) for i in ids]
    for i in ids:
        if not 0 <= i < size:
            raise ValueError(f"the id {i} is not in the vocabulary, 0 to {size - 1}; "
                             "decode with the tokenizer that the ids belong to")
    return ids
