"""Reading named entities from the tags of a sentence."""

import numpy as np

from ...data.entities import spans
from ..exercise import Exercise, Mistake


def entity_spans(kinds, types):
    """The named entities in the tags of a sentence: from where to where, and of which type.

    kinds: (T,) integers, for each word 0 = O, outside of any entity; 1 = B, begin; 2 = I, inside.
    types: (T,) integers from 0 on, the type of each word's entity; what stands there for a word with O means nothing.
    Whatever tags a model writes are read, by these rules of the scorer conlleval: B always begins an entity. I goes on
    with the entity of the word before it if that has the same type; else it begins one itself.
    Return entities: (N, 3) integers, in order: start, stop, type of each; its words are start to stop - 1. Without any
    entity N is 0: the shape is (0, 3).
    """
    found, inside = [], None                    # the type of the entity that may go on
    for i, (kind, entity) in enumerate(zip(kinds, types)):
        if kind == 0:
            inside = None
        elif kind == 1 or entity != inside:
            found.append([i, i + 1, entity])
            inside = entity
        else:
            found[-1][1] = i + 1
    return np.array(found, int).reshape(-1, 3)


def draw_tags(rng, T):
    """Tags at random, valid and invalid ones, of two types; the first and the last word belong to an entity."""
    kinds, types = rng.choice(3, T, p=(0.3, 0.2, 0.5)), rng.integers(0, 2, T)
    kinds[0], kinds[-1] = rng.integers(1, 3), 2
    return kinds, types


def sentences_by_hand(rng):
    def tags(text, types):
        return np.array(["OBI".index(kind) for kind in text]), np.array(list(map(int, types)))
    return [("B follows its own type", tags("BIBIO", "11112")), ("I follows O", tags("OIIOI", "12222")),
            ("I after O, the first type again", tags("BIOIO", "00000")),
            ("another type follows", tags("BIIIO", "11220")), ("no entity", tags("OOO", "120")),
            ("one word", tags("I", "0")), ("types change from word to word", tags("OIIIB", "01011"))]


def by_conlleval(kinds, types):
    found = spans([f"{'OBI'[kind]}-{entity}" if kind else "O" for kind, entity in zip(kinds, types)])
    return np.array([(start, stop, int(entity)) for start, stop, entity in found], int).reshape(-1, 3)


SPAN = (
    Mistake("SPAN-1", {"elif kind == 1 or entity != inside:":
                       "elif kind == 2 and inside is None:\n            continue\n        "
                       "elif kind == 1 or entity != inside:"},
            "An I without an entity before it is dropped. By conlleval's rules it begins one."),
    Mistake("SPAN-2a", {"entity != inside": "inside is None"},
            "The type is not compared: an I of another type goes on with the entity before it. It begins a new one."),
    Mistake("SPAN-2b", {"entity != inside": "inside is None", "found[-1][1] = i + 1": "found[-1][1:] = i + 1, entity"},
            "An I of another type changes the type of the entity before it. It begins a new one."),
    Mistake("SPAN-3", {"kind == 1 or entity": "entity"},
            "A B behind an entity of its type goes on with it. B always begins a new one: that is what it is for."),
    Mistake("SPAN-4", {"[i, i + 1, entity]": "[i, i, entity]", "[1] = i + 1": "[1] = i"},
            "stop is the last word. As in Python it is one behind: the words are start to stop - 1."),
    Mistake("SPAN-5", {"return np.array(found, int)":
                       "return np.array(found[:len(found) - (inside is not None)], int)"},
            "An entity that reaches the end of the sentence is lost: no tag behind it closes it."),
    Mistake("SPAN-6", {"            inside = None\n": "            pass\n"},
            "O does not end an entity: a later I of the same type goes on with it, across the words between."),
    Mistake("SPAN-7", {"entity != inside": "kind == 2"},
            "Every word is an entity of its own. I goes on with the one before, if that has the same type."),
    Mistake("SPAN-8", {"            inside = None\n": "            inside = entity\n"},
            "The type of a word with O counts: an I of that type behind it does not begin an entity. O has no type."),
    Mistake("SPAN-9", {"            inside = None\n": "            inside = 0\n"},
            "Outside of entities the type is set to 0, and 0 is a type: an I of it behind O does not begin an entity."),
    Mistake("SPAN-10", {"[i, i + 1, entity]": "[entity, i, i + 1]", "found[-1][1]": "found[-1][2]"},
            "The columns stand in another order than asked: start, stop, type."),
    Mistake("SPAN-11", {"[i, i + 1, entity]": "[i, 1, entity]", "[1] = i + 1": "[1] += 1"},
            "The second column is the number of words. Asked is where the entity stops."),
    Mistake("SPAN-12", {"enumerate(zip(kinds, types))": "enumerate(zip(kinds, types), 1)"},
            "The words are counted from 1: the first one is word 0."),
    Mistake("SPAN-13", {"np.array(found, int).reshape(-1, 3)": "np.array(found, int)"},
            "Without an entity the shape is (0,): an empty list has no second axis. (0, 3) is asked for."),
    Mistake("SPAN-14", {"found[-1][1] = i + 1": "pass"},
            "No entity has more than one word: an I that goes on moves its stop."),
    Mistake("SPAN-15", {"elif kind == 1 or entity != inside:":
                        "elif kind == 2 and entity != inside:\n            inside = None\n        elif kind == 1:"},
            "An I of another type, or behind O, is thrown away. By conlleval's rules it begins an entity."),
    Mistake("SPAN-16", {"reshape(-1, 3)": "reshape(-1, 3).T"}, "The array is transposed: one row for each entity."),
)

EXERCISES = [
    Exercise(
        "14.4", "Entities of tags", minutes=20, lines=10,
        solution=entity_spans, reference=by_conlleval, inputs=lambda rng, n: draw_tags(rng, 2 * n.S),
        edges=sentences_by_hand, outputs=("entities",), mistakes=SPAN,
        hints=("Go from word to word. What do you have to know of the words before, to say whether I begins an entity?",
               "Only the type of the entity that the word before belongs to, or that there is none, after O and at "
               "the start. 0 is a type: None says that there is none.",
               "B, or a type other than that: append [i, i + 1, type]; else, if not O, the last one's stop becomes i "
               "+ 1."),
        alternatives={"the word before": {
            "kind == 1 or entity != inside": "kind == 1 or i == 0 or kinds[i - 1] == 0 or entity != types[i - 1]"}}),
]
