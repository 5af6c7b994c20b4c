"""Text to text: four tasks for one model, each text with the name of its task in front, as in "reverse: planet".

Source: Raffel et al. 2020, section 2.4 and figure 1; section 3.5.2 for the mixing.
"""

import re
from dataclasses import dataclass

import numpy as np

from .bpe import check_ids
from .tasks import TEST, Task, dates, reverse, sort
from .tokenizers import KINDS, shown

SHARES = {"reverse": 30_000, "sort": 50_000, "date": 40_000, "summarize": 40_000}       # training pairs
VALIDATION = 125                        # pairs of each task; the test has TEST of each
PARTS = {whole: parts.split() for whole, parts in {
    "garden": "rose hedge lawn pond bush", "kitchen": "stove sink kettle oven fridge",
    "ship": "mast sail deck anchor rudder", "castle": "tower moat dungeon drawbridge throne",
    "forest": "oak owl fern moss fox", "beach": "sand wave shell dune crab",
    "bicycle": "pedal saddle handlebar chain spoke", "orchestra": "violin flute drum trumpet cello"}.items()}
VERBS = "is was looks seems".split()
ADJECTIVES = ("old new small big dark bright dry wet quiet clean dirty strange lovely plain famous simple perfect ugly "
              "green white").split()
ENDINGS = [f"{verb} {adjective}." for verb in VERBS for adjective in ADJECTIVES]


class MixedTokenizer:
    """One id for each known piece of a text, a word or a single character; where several fit, the longest counts.

    A small language is so read word by word and everything else letter by letter.

    Parameters:
        pieces : list of the known pieces, such as ["reverse: ", " garden", "a", "b"]; their ids count from 0

    Raises:
        ValueError if a piece is not a str, is empty or stands there twice, if there is none, and in encode where no
        piece fits.
    """

    def __init__(self, pieces):
        self.pieces, self.ids = list(pieces), {}
        for i, piece in enumerate(self.pieces):
            if not isinstance(piece, str) or not piece or piece in self.ids:
                raise ValueError(f"piece {i} is {piece!r}, but it must be a str of at least 1 character that is not "
                                 "there before; pass the pieces of a tokenizer that was made before")
            self.ids[piece] = i
        if not self.pieces:
            raise ValueError("there are 0 pieces, but a tokenizer needs at least 1; pass words or characters")
        longest_first = sorted(self.pieces, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) + "|.", re.DOTALL)    # ".": what is unknown

    @property
    def vocab_size(self):
        return len(self.pieces)

    def encode(self, text):
        try:
            return np.array([self.ids[piece] for piece in self.pattern.findall(text)], np.int64)
        except KeyError as error:
            raise ValueError(f"the character {shown(error.args[0])} begins none of the {self.vocab_size} pieces that "
                             "fit there; leave it out, or train on texts that have it") from error

    def decode(self, ids):
        return "".join(self.pieces[i] for i in check_ids(ids, self.vocab_size))

    def to_json(self):
        return {"kind": "mixed", "pieces": list(self.pieces)}


KINDS["mixed"] = MixedTokenizer, "pieces", list


@dataclass
class TextToText(Task):
    """A mixture of tasks: each source begins with the name of its own."""

    def tokenizers(self):
        """One MixedTokenizer, twice: the words of the summaries and each "reverse: " are pieces, as is every character.

        A word is one with the space before it, so none is found among the letters behind "reverse: ".
        """
        words = ["The", *PARTS, *sum(PARTS.values(), []), *VERBS, *ADJECTIVES]
        pairs = self.training + self.validation + self.test
        characters = sorted(set("".join(text for pair in pairs for text in pair)))
        return (MixedTokenizer([*map("{}: ".format, SHARES), "The", *map(" {}".format, words), *characters]),) * 2


def text_to_text(seed):
    """Words to reverse and to sort, dates to read and texts to summarize, drawn from the tasks of the same seed.

    The dates of the test are of years held out, its summaries are sentences held out.
    """
    tasks = {"reverse": reverse(seed), "sort": sort(seed), "date": dates(seed), "summarize": summarize(seed)}
    rng, lists = np.random.default_rng([seed, 8]), ([], [], [])
    for name, task in tasks.items():
        counts = SHARES[name], VALIDATION, TEST
        for mixture, pairs, count in zip(lists, (task.training, task.validation, task.test), counts):
            chosen = rng.permutation(len(pairs))[:count].tolist()
            mixture += [(f"{name}: {pairs[i][0]}", pairs[i][1]) for i in chosen]
    return TextToText("text to text", *lists, tasks["date"].held_out_years)


def task_of(source):
    """The task that a source names, such as "reverse". Raises ValueError if it names none."""
    name, separator, _ = source.partition(": ")
    if not separator or name not in SHARES:
        raise ValueError(f"{source[:40]!r} does not begin with the name of a task; put one of "
                         f"{', '.join(repr(f'{name}: ') for name in SHARES)} in front of the text")
    return name


def summarize(seed):
    """Four or five sentences in any order; the answer is the one whose subject has the subjects of others as its parts.

    Two sentences are about a whole, such as "The garden is quiet."; the others, two or three, are about parts of one
    of the two, such as its hedge, in the same words. So neither form nor place tells the answer, only what belongs
    together. A tenth of the sentences about a whole is in the test alone, another in the validation alone.
    """
    rng = np.random.default_rng([seed, 7])
    topics = [(whole, f"The {whole} {ending}") for whole in PARTS for ending in ENDINGS]
    topics = [topics[i] for i in rng.permutation(len(topics))]
    tenth = len(topics) // 10
    return Task("summarize", summaries(rng, topics[2 * tenth:], SHARES["summarize"]),
                summaries(rng, topics[tenth:2 * tenth], VALIDATION), summaries(rng, topics[:tenth], TEST))


def summaries(rng, topics, count):
    """So many pairs (text, its topic sentence), no text twice."""
    found = {}
    while len(found) < count:
        drawn = (rng.integers(len(topics), size=(count, 2)), rng.random((count, 5)).argsort(1),
                 rng.integers(len(ENDINGS), size=(count, 3)), rng.random((count, 5)).argsort(1),
                 rng.integers(4, 6, count))
        for (n, m), parts, endings, order, length in zip(*(column.tolist() for column in drawn)):
            (whole, answer), (other, decoy) = topics[n], topics[m]
            if whole != other:
                details = [f"The {PARTS[whole][part]} {ENDINGS[i]}" for part, i in zip(parts, endings)]
                sentences = [answer, decoy, *details]
                found[" ".join(sentences[i] for i in order if i < length)] = answer
    return list(found.items())[:count]
