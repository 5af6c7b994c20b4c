"""Text to text: four tasks for one model, each text with the name of its task in front, as in "reverse: planet".

Source: Raffel et al. 2020, section 2.4 and figure 1; section 3.5.2 for the mixing.
"""

from dataclasses import dataclass

import numpy as np

from .generated_pairs import TEST, GeneratedPairs, dates, reverse, sort
from .tokenizers import MixedTokenizer

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


@dataclass
class TextToText(GeneratedPairs):
    """A mixture of tasks: each source begins with the name of its own."""

    def tokenizers(self):
        """One MixedTokenizer, twice: the words of the summaries and each "reverse: " are pieces, as is every character.

        A word is one with the space before it, so none is found among the letters behind "reverse: ".
        """
        words = ["The", *PARTS, *sum(PARTS.values(), []), *VERBS, *ADJECTIVES]
        pairs = self.training + self.validation + self.test
        characters = sorted(set("".join(text for pair in pairs for text in pair)))
        return (MixedTokenizer([*map("{}: ".format, SHARES), "The", *map(" {}".format, words), *characters]),) * 2


def generate_text_to_text(seed):
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
    """The task that a source names before a colon, such as "reverse". Raises ValueError if it names none."""
    name, colon, _ = source.partition(":")
    if not colon or not name.strip():
        raise ValueError(f"the source {source[:40]!r} names no task; put its name and a colon in front of the text, as "
                         "in 'sort: planet'")
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
    return GeneratedPairs("summarize", summaries(rng, topics[2 * tenth:], SHARES["summarize"]),
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
