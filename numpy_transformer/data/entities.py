"""Named entities as tags of words: O outside, B-type at the begin, I-type inside; and how tags are scored."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

TAG = re.compile("O|[BIELSU](-.+)?")            # IOB1, BIO; E and L end an entity, S and U are one alone: IOBES, BILOU


def split_tag(tag):
    """("B", "person") of B-person, ("I", "") of I; the type is all behind the first dash.

    Raises ValueError for what is no tag.
    """
    if not (isinstance(tag, str) and TAG.fullmatch(tag)):
        raise ValueError(f"{tag!r:.60} is no tag of a word, but it must be O, B-type or I-type (E-, S-, L- and U-type "
                         "are read as well); name the column of the tags, or mend the tag")
    kind, _, entity = tag.partition("-")
    return kind, entity


def spans(tags):
    """The entities of a sentence as a list of (start, stop, type): words start to stop - 1.

    B-x begins one always, I-x behind O and behind another type: so IOB1 and BIO are both read, and whatever a model
    writes is read in the one way that counts.

    Source: the rules of conlleval, the scorer of CoNLL-2000 (Tjong Kim Sang and Buchholz 2000).
    """
    found, last, inside = [], "O", ""
    for i, (kind, entity) in enumerate(map(split_tag, tags)):
        if kind != "O" and (kind in "BSU" or last in "OELSU" or entity != inside):
            found.append((i, i + 1, entity))
        elif kind != "O":
            found[-1] = found[-1][0], i + 1, entity
        last, inside = kind, entity
    return found


def to_bio(tags):
    """The same entities in BIO: each begins with B, whatever scheme they had; invalid tags become valid ones."""
    bio = ["O"] * len(tags)
    for start, stop, entity in spans(tags):
        ending = f"-{entity}" if entity else ""
        bio[start:stop] = ["B" + ending] + ["I" + ending] * (stop - start - 1)
    return bio


@dataclass
class Score:
    """How many entities were found, how many are wanted, and how many found ones are right, borders and type."""

    right: int
    found: int
    wanted: int

    @property
    def precision(self):
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self):
        return self.right / self.wanted if self.wanted else 0.0

    @property
    def f1(self):
        """2 P R / (P + R) = 2 right / (found + wanted); 0 where nothing is right."""
        return 2 * self.right / (self.found + self.wanted) if self.right else 0.0


@dataclass
class EntityScores:
    """`all`: the Score over all types; `types`: {type: Score}; `accuracy`: the share of right tags among `tokens`."""

    all: Score
    types: dict
    accuracy: float
    tokens: int


def entity_scores(right, found):
    """EntityScores of the tags found, a list of tags for each sentence, against the right ones, as conlleval counts.

    Raises ValueError if the sentences or their lengths differ, or if there are no words.
    """
    check_same_words(right, found)
    right_spans, found_spans = ([(n, *span) for n, tags in enumerate(side) for span in spans(tags)]
                                for side in (right, found))
    both = set(right_spans) & set(found_spans)
    counts = [Counter(entity for *_, entity in side) for side in (both, found_spans, right_spans)]
    types = {entity: Score(*(count[entity] for count in counts)) for entity in sorted(counts[1] | counts[2])}
    tokens = sum(map(len, right))
    same = sum(one == other for pair in zip(right, found) for one, other in zip(*pair))
    return EntityScores(Score(len(both), len(found_spans), len(right_spans)), types, same / tokens, tokens)


def check_same_words(right, found):
    if len(right) != len(found):
        raise ValueError(f"{len(right):,} sentences of right tags and {len(found):,} of found ones must be equally "
                         "many; give one list of tags for each sentence on both sides")
    for n, (one, other) in enumerate(zip(right, found), 1):
        if len(one) != len(other):
            raise ValueError(f"sentence {n:,} has {len(one)} right tags but {len(other)} found ones; give one tag for "
                             "each word on both sides")
    if not any(map(len, right)):
        raise ValueError(f"{len(right)} sentences without a word have no score; give at least 1 word")


def scores_table(scores):
    """EntityScores as text: a line for all, one for each type in order, and the share of right tags."""
    rows = [("all", scores.all), *((entity or "(no type)", score) for entity, score in sorted(scores.types.items()))]
    width = max(len(name) for name, _ in rows)
    lines = [f"{'':{width}}  precision    recall        F1   right   found  wanted"]
    lines += [f"{name:{width}}  {100 * s.precision:7.2f} % {100 * s.recall:7.2f} % {100 * s.f1:7.2f} % "
              f"{s.right:7,} {s.found:7,} {s.wanted:7,}" for name, s in rows]
    return "\n".join([*lines, f"right tags: {100 * scores.accuracy:.2f} % of {scores.tokens:,}"])


def tag_baseline(training, texts):
    """Tags for lists of words: a word's most frequent tag in `training`, a list of (words, tags); O for a new word.

    Among equals the tag that was seen first. It knows no context: what a model reaches above it, context has taught.
    """
    counts = defaultdict(Counter)
    for words, tags in training:
        for word, tag in zip(words, tags):
            counts[word][tag] += 1
    best = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    return [[best.get(word, "O") for word in words] for words in texts]
