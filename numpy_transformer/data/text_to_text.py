"""Text-to-text data: four tasks for one model, with the name of the task as a prefix, as in "reverse: planet".

Source: Raffel et al. 2020, section 2.4 and figure 1; section 3.5.2 for the mixing.
"""

from dataclasses import dataclass

import numpy as np

from .generated_pairs import TEST, GeneratedPairs, dates, reverse, sort
from .tokenizers import MixedTokenizer

SHARES = {"reverse": 30_000, "sort": 50_000, "date": 40_000, "summarize": 40_000}       # training pairs
VALIDATION = 125                        # pairs of each task; the test set has TEST of each
PARTS = {
    "garden": "rose hedge lawn pond bush".split(), "kitchen": "stove sink kettle oven fridge".split(),
    "ship": "mast sail deck anchor rudder".split(), "castle": "tower moat dungeon drawbridge throne".split(),
    "forest": "oak owl fern moss fox".split(), "beach": "sand wave shell dune crab".split(),
    "bicycle": "pedal saddle handlebar chain spoke".split(), "orchestra": "violin flute drum trumpet cello".split()}
VERBS = "is was looks seems".split()
ADJECTIVES = ("old new small big dark bright dry wet quiet clean dirty strange lovely plain famous simple perfect ugly "
              "green white").split()
ENDINGS = [f"{verb} {adjective}." for verb in VERBS for adjective in ADJECTIVES]


@dataclass(repr=False)
class TextToText(GeneratedPairs):
    """Pairs of several tasks; each source begins with the name of its task."""

    def tokenizers(self):
        """Returns (tokenizer, tokenizer), one MixedTokenizer for sources and targets.

        Its pieces are the prefixes such as "reverse: ", the words of the summaries and every character. A word includes
        the space before it, so the letters after "reverse: " are never read as a word.
        """
        words = ["The", *PARTS, *sum(PARTS.values(), []), *VERBS, *ADJECTIVES]
        pairs = self.training + self.validation + self.test
        characters = sorted(set("".join(text for pair in pairs for text in pair)))
        prefixes = [f"{name}: " for name in SHARES]
        tokenizer = MixedTokenizer([*prefixes, "The", *(f" {word}" for word in words), *characters])
        return tokenizer, tokenizer


def generate_text_to_text(seed):
    """Returns a TextToText of four tasks: reverse a word, sort its letters, convert a date, summarize a text.

    The pairs are drawn from the single tasks with the same seed. The dates of the test set are from years, and its
    summaries are sentences, that do not occur in the training set.
    """
    tasks = {"reverse": reverse(seed), "sort": sort(seed), "date": dates(seed), "summarize": summarize(seed)}
    rng = np.random.default_rng([seed, 8])
    sets = [], [], []                           # training, validation, test
    for name, task in tasks.items():
        counts = SHARES[name], VALIDATION, TEST
        for mixture, pairs, count in zip(sets, (task.training, task.validation, task.test), counts):
            chosen = rng.permutation(len(pairs))[:count].tolist()
            mixture += [(f"{name}: {pairs[i][0]}", pairs[i][1]) for i in chosen]
    return TextToText("text to text", *sets, tasks["date"].held_out_years)


def task_of(source):
    """Returns the task that a source names before a colon, such as "reverse". Raises ValueError if there is none."""
    name, colon, _ = source.partition(":")
    if not colon or not name.strip():
        raise ValueError(f"the source {source[:40]!r} names no task; begin it with the name of the task and a colon, "
                         "as in 'sort: planet'")
    return name


def summarize(seed):
    """Finds the topic sentence among four or five sentences in random order.

    Two sentences are about a whole, such as "The garden is quiet."; the other two or three are about parts of one of
    them, such as the hedge of the garden, in the same words. The sentence about that whole is the answer. Neither its
    form nor its position gives it away, only the relation between parts and wholes. A tenth of the sentences about a
    whole occur only in the test set, and another tenth only in the validation set.
    """
    rng = np.random.default_rng([seed, 7])
    topics = [(whole, f"The {whole} {ending}") for whole in PARTS for ending in ENDINGS]
    topics = [topics[i] for i in rng.permutation(len(topics))]
    tenth = len(topics) // 10
    return GeneratedPairs(
        "summarize",
        training=summaries(rng, topics[2 * tenth:], SHARES["summarize"]),
        validation=summaries(rng, topics[tenth:2 * tenth], VALIDATION),
        test=summaries(rng, topics[:tenth], TEST))


def summaries(rng, topics, count):
    """Returns `count` pairs (text, its topic sentence) with distinct texts."""
    answers = {}
    while len(answers) < count:
        drawn = (rng.integers(len(topics), size=(count, 2)), rng.random((count, 5)).argsort(1),
                 rng.integers(len(ENDINGS), size=(count, 3)), rng.random((count, 5)).argsort(1),
                 rng.integers(4, 6, count))
        for (n, m), parts, endings, order, length in zip(*(column.tolist() for column in drawn)):
            (whole, answer), (other, decoy) = topics[n], topics[m]
            if whole != other:
                details = [f"The {PARTS[whole][part]} {ENDINGS[i]}" for part, i in zip(parts, endings)]
                sentences = [answer, decoy, *details]
                answers[" ".join(sentences[i] for i in order if i < length)] = answer
    return list(answers.items())[:count]
