"""Sentences with tagged names, generated from a seed: the same name can be a person, a location or an organization."""

from dataclasses import dataclass

import numpy as np

PARTS = (6_000, 340), (500, 420), (1_000, 500)      # training, validation, test: sentences, names to draw from

FIRST = "Ash Bel Bran Cal Cor Dra Dun El Fen Gar Hel Jor Kel Lan Mar Nor Os Pel Quen Ral Sel Tor Ul Ver Wex".split()
LAST = "bury combe dane dor field ford gan hurst ick lan mere mond noth rick ross stead tan vane wyn zan".split()

SLOTS = {                                           # N is a name; words before a bar are not part of the entity
    "PERSON": ["N", "N", "N", "N N", "N N", "Dr | N"],
    "LOCATION": ["N", "N", "N", "New N", "Port N", "N Bay"],
    "ORGANIZATION": ["N", "N", "N", "N N", "N & N", "N Bank", "the | Bank of N", "the | University of N"],
    "DAY": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "MONTH": "January February March April May June July August September October November December".split(),
    "NUMBER": "two three four five six seven nine ten twelve twenty".split(),
    "KIND": "quiet small famous new remarkable grand forgotten".split(),
    "GOODS": "steel engines paper glass wool clocks".split(),
}
ENTITIES = {"PERSON": "person", "LOCATION": "location", "ORGANIZATION": "organization"}

TEMPLATES = """\
yesterday PERSON smiled at the crowd .
yesterday LOCATION was covered by snow .
yesterday ORGANIZATION dismissed NUMBER engineers .
PERSON , who studied in LOCATION , now works for ORGANIZATION .
LOCATION , which lies on the coast , is a KIND town .
ORGANIZATION , which makes GOODS , opened an office in LOCATION .
PERSON and PERSON will marry in MONTH .
LOCATION and LOCATION are joined by a KIND bridge .
ORGANIZATION and ORGANIZATION will merge in MONTH .
the sister of PERSON resigned on DAY .
the mayor of LOCATION resigned on DAY .
the chairman of ORGANIZATION resigned on DAY .
the voice of PERSON rose in anger .
the rivers around LOCATION rose in MONTH .
shares of ORGANIZATION rose in MONTH .
we heard that PERSON had married PERSON .
we heard that LOCATION had lost NUMBER of its bridges .
we heard that ORGANIZATION had sued ORGANIZATION .
on DAY PERSON took the train from LOCATION to LOCATION .
on DAY LOCATION will choose a new mayor .
on DAY ORGANIZATION sold its GOODS to ORGANIZATION .
after NUMBER years in LOCATION , PERSON joined ORGANIZATION .
after NUMBER years at ORGANIZATION , PERSON moved to LOCATION .
few people remember PERSON , the KIND painter .
few people remember LOCATION , the KIND village .
few people remember ORGANIZATION , the KIND company .
the letter to PERSON was lost in LOCATION .
the train to LOCATION leaves in NUMBER minutes .
the loan to ORGANIZATION was paid back in MONTH .
PERSON has a KIND voice and NUMBER daughters .
LOCATION has a KIND harbour and NUMBER churches .
ORGANIZATION has a KIND factory and NUMBER offices .
a portrait of PERSON hangs in the town hall of LOCATION .
a map of LOCATION hangs in the house of PERSON .
a share of ORGANIZATION costs NUMBER pounds .
nobody plays the violin like PERSON .
nobody lives in LOCATION in MONTH .
nobody makes GOODS like ORGANIZATION .
where did PERSON learn to paint ?
where is LOCATION on this map ?
where does ORGANIZATION make its GOODS ?
ORGANIZATION hired PERSON , a lawyer from LOCATION .
PERSON sued ORGANIZATION over a KIND house in LOCATION .
PERSON told ORGANIZATION that the road to LOCATION was closed .
people in LOCATION buy KIND GOODS from ORGANIZATION .
there is no GOODS in LOCATION , said PERSON .
the engineers of ORGANIZATION met PERSON on DAY .
the farmers near LOCATION met PERSON in MONTH .
""".splitlines()


@dataclass
class Tagged:
    """Tagged sentences; no sentence occurs twice, and no template occurs twice with the same entities.

    Parameters:
        training, validation, test : lists of (words, tags), with tags in BIO
        types : the types of entities
    """

    training: list
    validation: list
    test: list
    types: tuple = tuple(ENTITIES.values())

    def __repr__(self):
        return (f"Tagged({len(self.training):,} training, {len(self.validation):,} validation and {len(self.test):,} "
                f"test sentences, types={self.types})")


def tagged_sentences(seed):
    """Returns a Tagged with 6,000 training, 500 validation and 1,000 test sentences.

    Entities of all types have the same names, so that only the context of a name determines its type. About a fifth of
    the names of the validation set, and a third of the names of the test set, never occur in the training set.
    """
    rng = np.random.default_rng([seed, 7])
    names = rng.permutation([first + last for first in FIRST for last in LAST]).tolist()
    seen = set()
    return Tagged(*(distinct_sentences(rng, count, names[:known], seen) for count, known in PARTS))


def distinct_sentences(rng, count, names, seen):
    """Returns `count` sentences (words, tags) whose template and entities are not in `seen`, and adds them to it."""
    sentences = []
    while len(sentences) < count:
        template = draw_option(rng, TEMPLATES)
        words, tags, entities = fill_template(rng, template, names)
        if (template, *entities) not in seen:
            seen.add((template, *entities))
            sentences.append((words, tags))
    return sentences


def fill_template(rng, template, names):
    """Returns (words, tags, entities) of a template with its slots filled and its first letter capitalized."""
    words, tags, entities = [], [], []
    for slot in template.split():
        pattern = draw_option(rng, SLOTS[slot]) if slot in SLOTS else slot
        before, _, form = pattern.rpartition("|")
        words += before.split()
        tags += ["O"] * len(before.split())
        filled = [draw_option(rng, names) if word == "N" else word for word in form.split()]
        words += filled
        if slot in ENTITIES:
            entity = ENTITIES[slot]
            tags += [f"B-{entity}"] + [f"I-{entity}"] * (len(filled) - 1)
            entities.append(" ".join(filled))
        else:
            tags.append("O")
    words[0] = words[0][0].upper() + words[0][1:]
    return words, tags, entities


def draw_option(rng, options):
    return options[rng.integers(len(options))]
