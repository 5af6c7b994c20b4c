"""Reading named entities from the tags of a sentence."""

import numpy as np

from ...data.entities import spans
from .definition import Exercise, Mistake


def entity_spans(kinds, types):
    """Reads the named entities from the tags of a sentence: where each starts and stops, and its type.

    kinds: (T,) integers, one per word: 0 = O, outside of any entity; 1 = B, begin; 2 = I, inside.
    types: (T,) integers, at least 0: the type of each word's entity. The type of a word with O has no meaning.
    A model may write any sequence of tags. Read them by the rules of the evaluation script conlleval: a B always begins
    an entity; an I continues the entity of the previous word if that has the same type, and otherwise begins one.
    Return entities: (N, 3) integers, in order: start, stop and type of each entity, which consists of the words start
    to stop - 1. If there is no entity, N is 0 and the shape is (0, 3).
    """
    found = []
    inside = None                               # type of the entity of the previous word, or None
    for i, (kind, entity_type) in enumerate(zip(kinds, types)):
        if kind == 0:
            inside = None
        elif kind == 1 or entity_type != inside:
            found.append([i, i + 1, entity_type])
            inside = entity_type
        else:
            found[-1][1] = i + 1
    return np.array(found, int).reshape(-1, 3)


def draw_tags(rng, T):
    """Draws random tags of two types, valid and invalid; the first and the last word belong to an entity."""
    kinds = rng.choice(3, T, p=(0.3, 0.2, 0.5))
    types = rng.integers(0, 2, T)
    kinds[0] = rng.integers(1, 3)
    kinds[-1] = 2
    return kinds, types


def sentences_by_hand(rng):
    """Sentences that separate the known mistakes, after a few words with O; the types 1 and 2 stand for any others."""
    def tags(text, types, most=4):
        before = int(rng.integers(most + 1))
        numbers = np.append(0, rng.permutation(np.arange(1, 30))[:2])
        kinds = ["OBI".index(kind) for kind in "O" * before + text]
        return np.array(kinds), numbers[[0] * before + list(map(int, types))]
    return [("a B after an entity of its type", tags("BIBIO", "11112")), ("I after O", tags("OIIOI", "12222")),
            ("I after O, with the type of the first entity", tags("BIOIO", "00000")),
            ("I of another type", tags("BIIIO", "11220")), ("no entity", tags("OOO", "120")),
            ("one word", tags("I", "1", most=0)), ("types that change from word to word", tags("OIIIB", "01011"))]


def by_conlleval(kinds, types):
    found = spans([f"{'OBI'[kind]}-{entity}" if kind else "O" for kind, entity in zip(kinds, types)])
    return np.array([(start, stop, int(entity)) for start, stop, entity in found], int).reshape(-1, 3)


SPAN = (
    Mistake("SPAN-1", {"elif kind == 1 or entity_type != inside:":
                       "elif kind == 2 and inside is None:\n            continue\n        "
                       "elif kind == 1 or entity_type != inside:"},
            "You ignore an I that does not follow an entity. By the rules of conlleval, it begins one."),
    Mistake("SPAN-2a", {"entity_type != inside": "inside is None"},
            "You do not compare the types: an I of another type continues the previous entity. It should begin a new "
            "one."),
    Mistake("SPAN-2b", {"entity_type != inside": "inside is None",
                        "found[-1][1] = i + 1": "found[-1][1:] = i + 1, entity_type"},
            "An I of another type changes the type of the previous entity. It should begin a new one."),
    Mistake("SPAN-3", {"kind == 1 or entity_type": "entity_type"},
            "A B after an entity of its type continues that entity. A B always begins a new one; it exists to separate "
            "such entities."),
    Mistake("SPAN-4", {"[i, i + 1, entity_type]": "[i, i, entity_type]", "[1] = i + 1": "[1] = i"},
            "Your stop is the last word of the entity. As in Python's slices, it should be one more: the words are "
            "start to stop - 1."),
    Mistake("SPAN-5", {"return np.array(found, int)":
                       "return np.array(found[:len(found) - (inside is not None)], int)"},
            "You lose an entity that reaches the end of the sentence, where no further tag closes it."),
    Mistake("SPAN-6", {"            inside = None\n": "            pass\n"},
            "O does not end your entity: a later I of the same type continues it, across the words in between."),
    Mistake("SPAN-7", {"entity_type != inside": "kind == 2"},
            "Every word is an entity by itself. An I continues the entity of the previous word if it has the same "
            "type."),
    Mistake("SPAN-8", {"            inside = None\n": "            inside = entity_type\n"},
            "You use the type of a word with O, so an I of that type after it does not begin an entity. O has no "
            "type."),
    Mistake("SPAN-9", {"            inside = None\n": "            inside = 0\n"},
            "You set the type to 0 outside of entities, but 0 is a type, so an I of type 0 after O does not begin an "
            "entity."),
    Mistake("SPAN-10", {"[i, i + 1, entity_type]": "[entity_type, i, i + 1]", "found[-1][1]": "found[-1][2]"},
            "Your columns are in the wrong order. They should be start, stop, type."),
    Mistake("SPAN-11", {"[i, i + 1, entity_type]": "[i, 1, entity_type]", "[1] = i + 1": "[1] += 1"},
            "Your second column is the number of words. It should be stop, the index after the last word."),
    Mistake("SPAN-12", {"enumerate(zip(kinds, types))": "enumerate(zip(kinds, types), 1)"},
            "You count the words from 1. The first word has index 0."),
    Mistake("SPAN-13", {"np.array(found, int).reshape(-1, 3)": "np.array(found, int)"},
            "If there is no entity, your shape is (0,), because an empty list has no second axis. It should be (0, "
            "3)."),
    Mistake("SPAN-14", {"found[-1][1] = i + 1": "pass"},
            "None of your entities has more than one word. An I that continues an entity must move its stop."),
    Mistake("SPAN-15", {"elif kind == 1 or entity_type != inside:":
                        "elif kind == 2 and entity_type != inside:\n            inside = None\n        "
                        "elif kind == 1:"},
            "You ignore an I of another type or after O. By the rules of conlleval, it begins an entity."),
    Mistake("SPAN-17", {"[i, i + 1, entity_type]": "[i, i, entity_type]"},
            "An entity of one word is empty in your result: its stop equals its start. The stop is the index after its "
            "last word."),
    Mistake("SPAN-18", {"elif kind == 1 or entity_type != inside:":
                        "elif kind == 2 and inside is None:\n            continue\n        elif kind == 1:"},
            "Only a B begins an entity in your result. By the rules of conlleval, an I of another type or after O "
            "begins one too."),
    Mistake("SPAN-19", {"        if kind == 0:": "        if found and found[-1][1] == i and (kind < 2 or entity_type "
                        "!= inside):\n            found[-1][2] = entity_type\n        if kind == 0:"},
            "Your entity has the type of the word after it, at which you noticed that it had ended. It must be the "
            "type of its own words."),
    Mistake("SPAN-20", {"return np.array(found, int)": "if inside is not None:\n        found[-1][1] -= 1\n    "
                        "return np.array(found, int)"},
            "The stop of an entity at the end of the sentence is one too small. It is the number of words, because the "
            "stop is the index after the last word."),
    Mistake("SPAN-21", {"            found.append(": "            if i and kinds[i - 1]:\n                "
                        "del found[-1]\n            found.append("},
            "You lose an entity if another one follows directly. When a new entity begins, the one before it has to be "
            "kept."),
    Mistake("SPAN-16", {"reshape(-1, 3)": "reshape(-1, 3).T"},
            "Your array is transposed. Each entity is a row."),
)

EXERCISES = [
    Exercise(
        "14.4", "Entities from tags", minutes=20, lines=11,
        solution=entity_spans, reference=by_conlleval, inputs=lambda rng, n: draw_tags(rng, 2 * n.S),
        edges=sentences_by_hand, outputs=("entities",), mistakes=SPAN,
        hints=("Go through the words in order. What must you know about the previous words to decide whether an I "
               "begins an entity?",
               "Only the type of the entity to which the previous word belongs, or that there is none: after O and at "
               "the start. Use None for that, because 0 is a type.",
               "For a B, or a type that differs from it, append [i, i + 1, type]; otherwise, if the tag is not O, set "
               "the stop of the last entity to i + 1."),
        alternatives={"the previous word": {
            "kind == 1 or entity_type != inside":
            "kind == 1 or i == 0 or kinds[i - 1] == 0 or entity_type != types[i - 1]"}}),
]
