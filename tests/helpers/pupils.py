"""A class with known results: what each student hands in, under which names, and the rows that the grader owes."""

import datetime
import functools
import random

import numpy as np

from numpy_transformer.course.exercises import choose
from numpy_transformer.course.exercises.observation import observe

from .habits import HABITS
from .pupil import DUE, MISSING, Pupil, Truth

SHEET = ("01.1", "01.2", "05.1", "05.2")
NAMES = [("Anna", "Müller"), ("Kim", "Lee"), ("Kim", "Lee"), ("Seán", "O'Brien"), ("Zoë", "de la Cruz-Smith"),
         ("Thị Minh Anh", "Nguyễn"), ("小明", "王"), ("민준", "김"), ("José", "García Márquez"), ("Łukasz", "Wójcik"),
         ("Martin", "King, Jr."), ("", "Suharto"), ("İpek", "Şahin"), ("Søren", "Ågård"), ("Anna-Lena", "Groß"),
         ("Дмитрий", "Иванов"), ("Ben", "Student"), ("Late", "Ahmed"), ("Marie (Mia)", "Dubois"), ("X Æ", "A_12_b")]
FIRST = "Ada Ali Bea Carl Dora Emil Fay Gil Hana Ida Jan Kai Lea Mia Nico Ole Pia Ravi Sara Tim Uma Will Yuki".split()
LAST = "Adams Bauer Chen Diaz Evans Fischer Gupta Haas Ito Jung Khan Lopez Meyer Novak Okafor Patel Rossi Silva".split()

CRASH = "\n\n_inner = {0}\n\n\ndef {0}(*arguments):\n    raise ValueError('does not work yet')\n"
IN_PLACE = ("\n\n_inner = {0}\n\n\ndef {0}(*arguments):\n    result = _inner(*arguments)\n    arguments[0][...] = 7\n"
            "    return result\n")
LOOP = "\n\ndef {0}(*arguments):\n    while True:\n        pass\n"
TRIES = "\n\nif __name__ == '__main__':\n    print({0}.__doc__)\n"


def make_class(count, seed=0, sheet=SHEET, habits=None):
    """Returns `count` pupils, always the same for a seed. Every habit occurs if there are enough pupils."""
    chosen, pupils = [choose(number) for number in sheet], []
    habits = list(habits or HABITS)
    for i in range(count):
        rng = random.Random(seed * 10007 + i)
        pupil = enroll(rng, i, habits[i % len(habits)])
        make, outcomes = HABITS[pupil.habit]
        works = {exercise.number: draw(rng, exercise, outcomes) for exercise in chosen}
        pupil.truth = {number: truth for number, (truth, _) in works.items()}
        pupil.partner = pupils[-1] if pupil.habit == "partner" else None
        make(rng, pupil, {choose(number): source for number, (_, source) in works.items() if source is not None})
        pupils.append(pupil)
    return pupils


def enroll(rng, i, habit):
    first, last = NAMES[i] if i < len(NAMES) else (rng.choice(FIRST), f"{rng.choice(LAST)}")
    plain = "".join(c for c in f"{first[:1]}{last}".lower() if c.isascii() and c.isalpha()) or "student"
    ids = {"canvas": 40000 + 7 * i, "sis": f"S{100200 + i}", "login": f"{plain}{i}", "moodle": 1500 + 3 * i,
           "email": f"{plain}{i}@example.edu", "gradescope": str(30000200 + i), "github": f"{plain}-{i:03d}",
           "anonymous": f"{'aBcDeFgHiJ'[i % 10]}{rng.randrange(16 ** 4):04x}", "submission": 250000000 + 13 * i}
    late = datetime.timedelta(hours=rng.choice([3, 30])) if rng.random() < 0.15 else -datetime.timedelta(
        hours=rng.randrange(1, 200))
    both = i % 17 == 5
    sections = ("Section 1", "Section 2") if both else (f"Section {i % 2 + 1}",)
    return Pupil(first, last, ids, sections, habit, DUE + late, attempt=2 if rng.random() < 0.2 else 1)


def draw(rng, exercise, outcomes):
    """Returns the Truth of one exercise, and the source that gets it, or None."""
    outcome, full = rng.choice(outcomes), exercise.points
    if outcome == "right":
        edits = rng.choice([{}, {}, *exercise.alternatives.values()])
        return Truth("pass", full), exercise.edited(edits) + rng.choice(["", TRIES.format(exercise.name)])
    if outcome == "mistake":
        mistake = rng.choice(plain_mistakes(exercise))
        return Truth("fail", 0, (mistake.name, mistake.twin)), exercise.edited(mistake.edits)
    right = exercise.edited()
    return {"todo": (Truth("todo"), exercise.skeleton()),
            "syntax": (Truth("error"), "return return ".join(right.rsplit("return ", 1))),
            "crash": (Truth("error", 0, note="does not work yet"), right + CRASH.format(exercise.name)),
            "in place": (Truth("fail", full // 2), right + IN_PLACE.format(exercise.name)),
            "loop": (Truth("timeout"), right + LOOP.format(exercise.name)),
            "matplotlib": (Truth("pass", full), f"import matplotlib.pyplot as plt\n{right}"),
            "missing": (MISSING, None)}[outcome]


@functools.cache
def plain_mistakes(exercise):
    """Returns the known mistakes that give wrong values in every case, without an error or a changed argument."""
    cases = [case for case in exercise.cases(5) if not case.role]
    right = [observe(exercise, exercise.solution, case) for case in cases]
    return [mistake for mistake in exercise.mistakes
            if all(differs(observe(exercise, exercise.target(exercise.edited(mistake.edits)), case), expected)
                   for case, expected in zip(cases, right))]


def differs(seen, right):
    if seen.error or seen.changed or len(seen.outputs) != len(right.outputs):
        return False
    pairs = list(zip(seen.outputs, right.outputs))
    return all(a.shape == b.shape and np.isfinite(a).all() for a, b in pairs) and not all(map(near, pairs))


def near(pair):
    return np.allclose(*pair, rtol=1e-3, atol=1e-6)
