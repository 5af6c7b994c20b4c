"""Similar submissions, in simulated classes in which it is known who copied what from whom."""

import random

import numpy as np
import pytest
from helpers.variants import Person, disguise

from numpy_transformer.course.exercises import choose, exercises
from numpy_transformer.grading import similar_page, similarity
from numpy_transformer.grading.arrival import File, Student
from numpy_transformer.grading.features import Code, expected_features, file_features, winnow
from numpy_transformer.grading.identical import Identical, find_identical

ALL = ("rename", "reformat", "comments", "reorder")
WAYS = {"verbatim": (), "names": ("rename",), "format": ("reformat",), "comments": ("comments",), "order": ("reorder",),
        "everything": ALL}
BACKWARD = choose("01.2")
SHEET = [choose(number) for number in ("01.2", "02.1", "02.2", "03.1", "05.1", "05.2", "07.1", "08.1", "09.2", "11.1")]


def write_class(seed, students, chosen, copies=(), share=1.0):
    """Students, exercises and {(student, student): way}. Each way is used by one pair, for this share of the files.

    A quarter of the files have a known mistake, and a twelfth is missing.
    """
    rng = random.Random(seed)
    if isinstance(chosen, int):                 # so many, drawn from all
        chosen = rng.sample(list(exercises().values()), chosen)
    sources = {}
    for i in range(students):
        person = Person(f"{seed} {i}")
        for exercise in chosen:
            wrong = rng.choice(exercise.mistakes).edits if exercise.mistakes and rng.random() < 0.25 else {}
            if rng.random() > 1 / 12:
                sources[i, exercise] = person.write(exercise, wrong)
    for k, way in enumerate(copies):
        for exercise in chosen:
            if (2 * k, exercise) in sources and rng.random() < share:
                sources[2 * k + 1, exercise] = disguise(sources[2 * k, exercise], exercise, rng, WAYS[way])
    class_ = [hand_in(f"s{i:04d}", {exercise: text for (j, exercise), text in sources.items() if j == i})
              for i in range(students)]
    return class_, chosen, {(f"s{2 * k:04d}", f"s{2 * k + 1:04d}"): way for k, way in enumerate(copies)}


def hand_in(name, sources):
    student = Student(name)
    for exercise, text in sources.items():
        student.attempts[exercise.number] = [File(exercise.file, exercise.file, text.encode(), exercise.number)]
    return student


def listed(class_, chosen, answers=()):
    return {pair.students for pair in similarity.find(class_, dict(answers), chosen).pairs}


def test_copies_are_listed_whatever_was_changed_and_nobody_else():
    class_, chosen, truth = write_class("three", 24, SHEET, ("verbatim", "names", "comments"))
    assert listed(class_, chosen) == set(truth)


def test_independent_students_are_not_listed():
    class_, chosen, _ = write_class("seven", 24, SHEET)
    assert listed(class_, chosen) == set()


def test_a_class_of_eight_is_too_small_to_set_the_limit_and_still_works():
    class_, chosen, truth = write_class("eight", 8, SHEET, ("verbatim", "names"))
    assert listed(class_, chosen) == set(truth)
    assert listed(class_[:1], chosen) == listed([], chosen) == listed(class_, []) == set()


def test_a_class_that_writes_the_expected_text_is_not_listed():
    chosen = [choose(number) for number in ("01.1", "01.2", "05.2", "02.2")]
    class_ = [hand_in(f"s{i}", {exercise: exercise.edited(exercise.mistakes[0].edits if i % 3 == 0 else {})
                                for exercise in chosen}) for i in range(25)]
    assert listed(class_, chosen) == set()
    class_ += [hand_in(f"t{i}", {exercise: exercise.skeleton() for exercise in chosen}) for i in range(5)]
    assert listed(class_, chosen) == set()


def catalog_class(count, numbers):
    """Students who write a known mistake exactly as the catalog has it, each a different choice of them."""
    rng, chosen = random.Random(4), [choose(number) for number in numbers]
    mistakes = [rng.sample(exercise.mistakes, 5) for exercise in chosen]
    return [hand_in(f"s{i}", {exercise: exercise.edited(own[i // 5 ** k % 5].edits)
                              for k, (exercise, own) in enumerate(zip(chosen, mistakes))}) for i in range(count)], chosen


def test_files_of_common_text_are_listed_if_all_are_the_same_byte_for_byte(tmp_path):
    class_, chosen = catalog_class(30, ("01.1", "01.2", "05.2"))
    assert find_identical(class_, chosen) == []
    class_[1].attempts = class_[0].attempts
    assert find_identical(class_, chosen) == [
        Identical(["s0", "s1"], ["01.1", "01.2", "05.2"], ["01.1", "01.2", "05.2"], True)]
    found = similarity.find(class_, {}, chosen)
    assert found.pairs == [] and "1 set of students handed in identical files" in similar_page.heading(found)
    for name in ("similar.md", "similar.html"):
        text = similar_page.write(found, class_, tmp_path / name).read_text(encoding="utf-8")
        assert "s0, s1: 01.1, 01.2, 05.2 (all their code)" in text and "bits" not in text
    del class_[0].attempts["05.2"], class_[2].attempts["05.2"]
    class_[2].attempts = class_[0].attempts
    assert find_identical(class_, chosen) == []                                 # two files are too few


def test_three_identical_files_of_own_text_are_listed_among_others_that_differ():
    class_, chosen, _ = write_class("identical", 6, SHEET[:5])
    assert find_identical(class_, chosen) == []
    for student in class_[1:4]:
        for exercise in SHEET[1:4]:
            student.attempts[exercise.number] = [File("", "", b"def f():  # mine\r\n    pass", exercise.number)]
    one, = find_identical(class_, chosen)
    assert (one.students, one.whole, one.plain) == (["s0001", "s0002", "s0003"], False, [])
    assert one.numbers == [exercise.number for exercise in SHEET[1:4]]


def test_skeletons_and_answers_in_numbers_are_not_identical_files():
    chosen = [choose(number) for number in ("01.1", "01.2", "02.1", "04.2", "05.3", "01.6")]
    class_ = [hand_in(f"s{i}", {exercise: exercise.edited() if exercise.kind != "write" else exercise.skeleton()
                                for exercise in chosen}) for i in range(4)]
    assert find_identical(class_, chosen) == []


def test_a_group_is_listed_as_one_and_rare_wrong_answers_count():
    class_, chosen, _ = write_class("five", 20, SHEET[:6])
    for student in class_[1:3]:
        student.attempts = class_[0].attempts
    found = similarity.find(class_, {}, chosen)
    group, = similarity.groups(found.pairs)
    assert {name for pair in group for name in pair.students} == {"s0000", "s0001", "s0002"} and len(group) == 3
    numbers = [exercise.number for exercise in chosen]
    before, after = (similarity.find(class_, answers, chosen).pairs[0].bits for answers in (
        {}, {(name, number): f"digest {number}" for name in ("s0000", "s0001") for number in numbers}))
    assert after > before + 5


def test_names_format_comments_and_order_do_not_change_the_structure():
    source = Person("anna").write(choose("05.2"))
    kinds = {}
    for way in ("rename", "reformat", "comments"):
        copy = disguise(source, choose("05.2"), random.Random(way), (way,))
        assert copy != source
        shared = set(file_features(source.encode(), choose("05.2"))) & set(file_features(copy.encode(), choose("05.2")))
        kinds[way] = {kind for kind, _ in shared}
    assert {"statement", "structure"} <= kinds["rename"] and "names" not in kinds["rename"]
    assert {"structure", "names"} <= kinds["reformat"] & kinds["comments"] and "text" not in kinds["reformat"]
    for end in ("\r\n", "\r"):
        assert file_features(source.replace("\n", end).encode(), choose("05.2")) == file_features(
            source.encode(), choose("05.2"))


def test_what_the_exercise_suggests_is_expected():
    for text in (BACKWARD.skeleton(), BACKWARD.edited(), BACKWARD.edited(BACKWARD.mistakes[1].edits)):
        assert set(file_features(text.encode(), BACKWARD)) <= expected_features(BACKWARD)
    other = BACKWARD.edited().replace("return p", "strange = 1  # an odd comment\n    return p")
    assert {("comment", "an odd comment"), ("name", "strange")} <= set(
        file_features(other.encode(), BACKWARD)) - expected_features(BACKWARD)


def test_given_functions_count_for_nobody_even_below_an_import_of_ones_own():
    for exercise in (choose("05.2"), choose("02.2")):
        text = exercise.skeleton().replace("import math\n", "import math\nfrom typing import Any\n")
        text = text.replace("raise NotImplementedError", "own = 1")
        own = {value for kind, value in set(file_features(text.encode(), exercise)) - expected_features(exercise)
               if kind in ("statement", "name")}
        assert own == {"Any from import typing", "own"}


def test_tokens_are_read_from_files_that_are_not_python():
    code = Code("def f(x):\n    a, b = x  # two parts\n    for i, c in x: a += i\n    self.z = a == 3\n    return (a\n")
    assert code.local == {"a", "b", "i", "c", "z"} and code.comments == ["two parts"]
    assert Code("x = '\n").statements and Code("\0").local == set()


def test_winnowing_keeps_the_least_hash_of_each_window_and_so_finds_long_passages():
    rng = random.Random(0)
    a, b, c = ([rng.choice("abcdefghij") for _ in range(60)] for _ in range(3))
    assert winnow(a) & winnow(b + a + c) and not winnow(a) & winnow(b + c)      # 60 >= 24 + 16 - 1: a shared passage


def test_a_sum_counts_the_largest_in_full_and_each_further_one_by_half():
    codes, bits = similarity.damped_sums(np.array([7, 3, 7, 7, 3]), np.array([4.0, 9.0, 8.0, 6.0, 2.0]),
                                         np.array([False, False, False, True, False]))
    assert codes.tolist() == [3, 7] and bits.tolist() == [9 + 1 - 4, 8 + 2 + 6 - 4]


def test_the_page_shows_the_evidence_side_by_side_and_escapes_it(tmp_path):
    class_, chosen, truth = write_class("six", 20, SHEET[:5], ("verbatim",))
    number = chosen[0].number
    for student in class_[:2]:
        file = student.attempts[number][0]
        file.content += b"# <script>alert(1)</script> my own words\n"
    class_[0].name, class_[1].name = "Zoe <b>", "kim"
    found = similarity.find(class_, {}, chosen)
    page = similar_page.write(found, class_, tmp_path / "similar.html").read_text(encoding="utf-8")
    assert "Zoe &lt;b&gt; and kim" in page and "<script" not in page and "proves nothing" in page
    assert page.count("<mark class=same>") > 5
    text = similar_page.write(found, class_, tmp_path / "similar.md").read_text(encoding="utf-8")
    assert "## Zoe <b> and kim" in text and "identical" in text and "my own words" in text
    nothing = similarity.find(class_[1:], {}, chosen)
    assert "no two students" in similar_page.heading(nothing) and nothing.pairs == []


def test_lines_with_other_names_are_marked_as_well():
    linear = choose("02.2")
    text = Person("zoe").write(linear)
    files = {("kim", "02.2"): File("", "", text.encode()),
             ("zoe", "02.2"): File("", "", disguise(text, linear, random.Random(1), ("rename",)).encode())}
    sides = similar_page.side_by_side(similarity.Pair(("kim", "zoe"), 1.0), "02.2", files, linear)
    for lines in sides:
        marks = {line.strip(): mark for line, mark in lines if line.strip() and line.strip()[0] != "#"}
        assert set(marks.values()) == {"same", "form"} and marks["self.saved.append(x)"] == "same"


@pytest.mark.slow
def test_how_much_is_found_and_how_much_is_listed_wrongly():
    """Rates in classes of 30; printed with -s. Whole sheets are found, single exercises of two lines are not."""
    wrong = sum(len(listed(*write_class(f"honest {i}", 30, 15)[:2])) for i in range(10))
    found = dict.fromkeys(WAYS, 0)
    for i in range(10):
        class_, chosen, truth = write_class(f"copied {i}", 30, 15, WAYS)
        pairs = listed(class_, chosen)
        wrong += len(pairs - set(truth))
        for pair, way in truth.items():
            found[way] += pair in pairs
    print(f"found of 10: {found}; pairs listed wrongly in 20 classes: {wrong}")
    assert wrong <= 4 and min(found[way] for way in WAYS if way != "everything") >= 8 and found["everything"] >= 3
