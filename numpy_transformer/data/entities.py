"""Named entities as tags of words (O outside, B-type at the beginning, I-type inside), and scores for the tags."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from .plurals import counted

TAG = re.compile("O|[BIELSU](-.+)?")            # IOB1, BIO; also IOBES and BILOU: E and L end, S and U are one word


def split_tag(tag):
    """Splits a tag: ("B", "person") for B-person, ("I", "") for I; the type is everything after the first hyphen.

    Raises ValueError for an invalid tag.
    """
    if not (isinstance(tag, str) and TAG.fullmatch(tag)):
        raise ValueError(f"{tag!r:.60} is not a valid tag; a tag is O, B-type or I-type (E-, S-, L- and U-type are "
                         "read too). Check which column has the tags, or correct the tag")
    kind, _, entity = tag.partition("-")
    return kind, entity


def spans(tags):
    """Returns the entities of a sentence as a list of (start, stop, type), which are the words start to stop - 1.

    B-x always begins an entity. I-x begins one after O and after another type. So IOB1 and BIO are both read, and any
    sequence of tags that a model predicts is scored as conlleval scores it.

    Source: the rules of conlleval, the scorer of CoNLL-2000 (Tjong Kim Sang and Buchholz 2000).
    """
    entities = []
    last_kind, last_entity = split_tag("O")
    for i, (kind, entity) in enumerate(map(split_tag, tags)):
        begins = kind in "BSU" or last_kind in "OELSU" or entity != last_entity
        if kind != "O" and begins:
            entities.append((i, i + 1, entity))
        elif kind != "O":
            entities[-1] = entities[-1][0], i + 1, entity
        last_kind, last_entity = kind, entity
    return entities


def to_bio(tags):
    """Converts tags of any scheme to BIO, in which each entity begins with B; invalid sequences become valid."""
    bio = ["O"] * len(tags)
    for start, stop, entity in spans(tags):
        ending = f"-{entity}" if entity else ""
        bio[start:stop] = ["B" + ending] + ["I" + ending] * (stop - start - 1)
    return bio


@dataclass
class Score:
    """Counts of entities, with their precision, recall and F1.

    Parameters:
        correct : predicted entities whose boundaries and type are both right
        predicted : entities in the predicted tags
        actual : entities in the true tags
    """

    correct: int
    predicted: int
    actual: int

    @property
    def precision(self):
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self):
        return self.correct / self.actual if self.actual else 0.0

    @property
    def f1(self):
        """2 P R / (P + R) = 2 correct / (predicted + actual); 0 if no entity is correct."""
        return 2 * self.correct / (self.predicted + self.actual) if self.correct else 0.0


@dataclass
class EntityScores:
    """Scores of predicted tags.

    Parameters:
        all : Score over all types
        types : {type: Score}
        accuracy : the share of correct tags, 0 to 1
        tokens : the number of tags
    """

    all: Score
    types: dict
    accuracy: float
    tokens: int


def entity_scores(right, predictions):
    """Returns the EntityScores of predicted tags, counted as conlleval counts them.

    Parameters:
        right : list of the true tags of each sentence
        predictions : list of the predicted tags of each sentence

    Raises:
        ValueError if the numbers of sentences or of tags differ, or if there are no words.
    """
    check_same_words(right, predictions)
    actual, predicted = all_spans(right), all_spans(predictions)
    sides = set(actual) & set(predicted), predicted, actual
    counts = [Counter(entity for *_, entity in side) for side in sides]
    types = {entity: Score(*(count[entity] for count in counts)) for entity in sorted(counts[1] | counts[2])}
    tokens = sum(map(len, right))
    correct_tags = sum(one == other for pair in zip(right, predictions) for one, other in zip(*pair))
    return EntityScores(Score(*map(len, sides)), types, correct_tags / tokens, tokens)


def all_spans(sentences):
    """Returns the entities of all sentences as a list of (sentence number, start, stop, type)."""
    return [(n, *span) for n, tags in enumerate(sentences) for span in spans(tags)]


def check_same_words(right, predictions):
    if len(right) != len(predictions):
        raise ValueError(f"there are true tags of {counted(len(right), 'sentence')} but predicted tags of "
                         f"{len(predictions):,}; give one list of tags per sentence in both")
    for n, (one, other) in enumerate(zip(right, predictions), 1):
        if len(one) != len(other):
            raise ValueError(f"sentence {n:,} has {counted(len(one), 'true tag')} but {len(other)} predicted; give "
                             "one tag per word in both")
    if not any(map(len, right)):
        raise ValueError("the sentences contain no words, so there is nothing to score; give at least 1 word")


def scores_table(scores):
    """Returns EntityScores as a text table: a line for all types, one for each type, and the share of correct tags."""
    rows = [("all", scores.all), *((entity or "(no type)", score) for entity, score in sorted(scores.types.items()))]
    width = max(len(name) for name, _ in rows)
    lines = [f"{'':{width}}  precision    recall        F1   correct  predicted  actual"]
    lines += [f"{name:{width}}  {100 * s.precision:7.2f} % {100 * s.recall:7.2f} % {100 * s.f1:7.2f} % "
              f"{s.correct:9,} {s.predicted:10,} {s.actual:7,}" for name, s in rows]
    return "\n".join([*lines, f"correct tags: {100 * scores.accuracy:.2f} % of {scores.tokens:,}"])


def tag_baseline(training, texts):
    """Tags each word with its most frequent tag in the training set: a baseline that ignores the context.

    Ties go to the tag that occurs first, and a word that is not in the training set gets O.

    Parameters:
        training : list of (words, tags)
        texts : list of lists of words

    Returns a list of tags for each text.
    """
    counts = defaultdict(Counter)
    for words, tags in training:
        for word, tag in zip(words, tags):
            counts[word][tag] += 1
    best = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    return [[best.get(word, "O") for word in words] for words in texts]
