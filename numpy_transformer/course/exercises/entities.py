"""Reading named entities from the tags of a sentence."""

import numpy as np

from ...data.entities import spans
from .definition import Exercise, Mistake


def entity_spans(kinds, types):
    found = []
    inside = None                               # {inside}
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
    return [("b_after_entity", tags("BIBIO", "11112")), ("i_after_o", tags("OIIOI", "12222")),
            ("i_after_o_type", tags("BIOIO", "00000")),
            ("i_another_type", tags("BIIIO", "11220")), ("no_entity", tags("OOO", "120")),
            ("word", tags("I", "1", most=0)), ("types_change_from", tags("OIIIB", "01011"))]


def by_conlleval(kinds, types):
    entities = spans([f"{'OBI'[kind]}-{entity}" if kind else "O" for kind, entity in zip(kinds, types)])
    return np.array([(start, stop, int(entity)) for start, stop, entity in entities], int).reshape(-1, 3)


EXERCISES = [
    Exercise(
        "14.4", minutes=20, lines=11,
        solution=entity_spans, reference=by_conlleval, inputs=lambda rng, n: draw_tags(rng, 2 * n.S),
        edges=sentences_by_hand, outputs=("entities",), mistakes=(
            Mistake("SPAN-2a", {"entity_type != inside": "inside is None"}),
            Mistake("SPAN-2b", {
                "entity_type != inside": "inside is None",
                "found[-1][1] = i + 1": "found[-1][1:] = i + 1, entity_type"}),
            Mistake("SPAN-3", {"kind == 1 or entity_type": "entity_type"}),
            Mistake("SPAN-4", {"[i, i + 1, entity_type]": "[i, i, entity_type]", "[1] = i + 1": "[1] = i"}),
            Mistake("SPAN-5", {
                "return np.array(found, int)": "return np.array(found[:len(found) - (inside is not None)], int)"}),
            Mistake("SPAN-19", {"return np.array(found, int)": "return np.array(found[:-1], int)"}),
            Mistake("SPAN-20", {
                "        elif kind == 1 or":
                    "        elif kind == 2 and inside is None:\n            continue\n        elif kind == 1 or"}),
            Mistake("SPAN-6", {"            inside = None\n": "            pass\n"}),
            Mistake("SPAN-7", {"entity_type != inside": "kind == 2"}),
            Mistake("SPAN-8", {"            inside = None\n": "            inside = entity_type\n"}),
            Mistake("SPAN-8b", {
                "            inside = None\n": "            inside = entity_type\n",
                "            found[-1][1] = i + 1": "            if found and found[-1][1] == i:\n                found[-1][1] = i + 1"}),
            Mistake("SPAN-11", {"[i, i + 1, entity_type]": "[i, 1, entity_type]", "[1] = i + 1": "[1] += 1"}),
            Mistake("SPAN-13", {"np.array(found, int).reshape(-1, 3)": "np.array(found, int)"}),
            Mistake("SPAN-14", {"found[-1][1] = i + 1": "pass"}),
            Mistake("SPAN-15", {
                "elif kind == 1 or entity_type != inside:":
                    "elif kind == 2 and entity_type != inside:\n            inside = None\n        elif kind == 1:"}),
            Mistake("SPAN-17", {"[i, i + 1, entity_type]": "[i, i, entity_type]"}),
            Mistake("SPAN-18", {
                "elif kind == 1 or entity_type != inside:":
                    "elif kind == 2 and inside is None:\n            continue\n        elif kind == 1:"}),
        ),
        alternatives={"the previous word": {
            "kind == 1 or entity_type != inside":
            "kind == 1 or i == 0 or kinds[i - 1] == 0 or entity_type != types[i - 1]"}}),
]
