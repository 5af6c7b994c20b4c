"""The words of exercises: none is missing or left over, sheets are well made, and a language translates all of them."""

import ast
import inspect
import io
import re
import tokenize

import numpy as np
import pytest
from helpers import pseudo_language
from helpers.answer_keys import EXERCISES
from helpers.commands import run

from numpy_transformer import texts
from numpy_transformer.course.exercises import choose
from numpy_transformer.course.exercises.cases import SIZES, brief, case_words, note_of
from numpy_transformer.course.exercises.sheet import documented
from numpy_transformer.texts import texts_of

every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: f"{e.number}-{e.name}")
OPTIONAL = re.compile(r"(task|given\.\w+)(\.\w+)?")     # a docstring, or a comment in code


def places(exercise):
    """The keys of all docstrings and comments for which an exercise's code has a place."""
    sources = {"task": exercise.code, **{f"given.{name}": text for name, text in exercise.given_texts.items()}}
    found = set(sources)
    for key, source in sources.items():
        tree = ast.parse(source).body[0]
        found |= {f"{key}.{part.name}" for part in tree.body if isinstance(part, ast.FunctionDef)}
        found |= {f"{key}.{name}" for name in re.findall(r"# \{(\w+)\}", exercise.code)}
    found |= {f"given.{part.__name__}.saved" for part in exercise.given if isinstance(part, type)}
    return found


@pytest.mark.parametrize("exercise", [pytest.param(e, id=f"{e.number}-{e.name}", marks=pytest.mark.slow if e.number == "13.3"
                                                   else ()) for e in EXERCISES])
def test_each_exercise_and_mistake_has_its_texts_and_no_text_is_left_over(exercise):
    found = {key for key in texts_of("exercises")[exercise.number] if not key.startswith("shared.")}
    wanted = {"title", "task", "hint1", "hint2", "hint3"}
    wanted |= {f"task.{method}" for method in exercise.write}
    wanted |= {f"case.{name}" for name, _ in exercise.edges(np.random.default_rng(0))}
    wanted |= {f"invariant.{name}" for name in exercise.must_be_zero}
    wanted |= {mistake.name for mistake in exercise.mistakes}
    assert wanted <= found, f"missing: {wanted - found}"
    left_over = {key for key in found - wanted if not OPTIONAL.fullmatch(key)} | (
        {key for key in found if OPTIONAL.fullmatch(key)} - places(exercise))
    assert not left_over
    assert '"""' not in exercise.code and not re.search(r"# (?!\{)", exercise.code), "words stand in texts/, not in code"


def test_sections_are_those_of_exercises_and_their_texts_have_no_placeholders():
    sections = texts_of("exercises")
    assert set(sections) - {"sheet", "cases", "find"} == {exercise.number for exercise in EXERCISES}
    assert not [text for exercise in EXERCISES for text in sections[exercise.number].values() if re.search("[{}$]", text)]


def test_a_sentence_that_stands_for_itself_is_part_of_several_texts():
    raw = texts.parsed(texts.ENGLISH, "exercises")
    used = [reference for section in raw.sections() for _, text in raw.items(section, raw=True)
            for reference in re.findall(r"\$\{(?:[\d.]+:)?(shared\.\w+)\}", text)]
    shared = [key for section in raw.sections() for key in raw.options(section) if key.startswith("shared.")]
    assert shared and all(used.count(key) > 1 for key in shared) and len(set(shared)) == len(shared)


def test_the_placeholders_of_general_texts_are_filled():
    assert [note_of(key, "TDF") for key, *_ in SIZES] == [
        "ordinary sizes", "other sizes", "square: D = F", "rows without a batch", "one more axis"]
    assert note_of("square", "T") == "square: equal sizes" and case_words("argument", method="f") == "an argument of f"
    assert brief([np.ones(2)] * 3) == "[3 times (2,)]" and brief([1, (2.5, "a")]) == "[1, [2.5, a]]"
    placeholders = {key: set(re.findall(r"\{(\w+)", text)) for key, text in texts_of("exercises")["sheet"].items()}
    assert placeholders == {"head": {"number", "title", "about", "lesson"}, "lines": {"lines", "minutes"},
                            "one_line": {"minutes"}, "float32": set(), "todo": set(), "todo_arguments": set(),
                            "imported": {"calls", "name"}}


@pytest.mark.parametrize("number, answer, complaint", [
    ("01.7", "np.ones(3)", "z has shape (3,); it must have 2 axes"),
    ("01.7", "np.ones((40, 40))", "z has 1600 entries; it must have 1 to 1000, and a few are enough"),
    ("01.7", "np.ones((2, 2), bool)", "z has dtype bool; it must hold floats"),
    ("01.7", "np.full((2, 2), 2e3)", "z has an entry that is not between -1000 and 1000"),
    ("01.7", "np.ones((2, 2))", "For these inputs the wrong version returns the same as the right one. Of what is the "
                                "maximum taken? How far below it may a row of yours be?"),
    ("03.3", "np.array([[1, 1]]), np.array([[[1e-4], [1.0]]])",
     "For these inputs the wrong version returns nearly the same as the right one: they differ by 1e-04 of the larger norm, "
     "which is too little. In a text some words are frequent. How often does each of your ids occur?"),
    ("03.3", "np.ones((2, 2)), np.ones((2, 2, 3))", "ids has dtype float64; it must hold integers"),
    ("03.3", "np.array([[1, 12]]), np.ones((1, 2, 3))", "The ids are between 1 and 12; the table has rows 0 to 9"),
    ("03.3", "np.array([[1, 2]]), np.ones((2, 2, 3))",
     "dy has shape (2, 2, 3), which does not fit ids of shape (1, 2): (B, T, D) is (1, 2, 3) here"),
    ("06.5", "np.ones((2, 3, 2)), np.array([[1, 0], [0, 0]])",
     "Sequence 1 is all padding; each sequence needs at least one real token"),
    ("08.4", "np.ones((2, 3)), np.ones((3, 3)), np.ones((2, 3))", "gamma has shape (3, 3); it must have 1 axis"),
    ("11.6", "np.ones((1, 2, 3)), np.ones((1, 2))", "token_mask has dtype float64; it must be boolean, True at real tokens"),
    ("11.6", "np.ones((1, 2, 3)), np.zeros((1, 2), bool)", "Text 0 has no real token; each text needs at least one")])
def test_what_is_wrong_with_inputs_that_find_no_bug(number, answer, complaint):
    outputs = eval(answer)
    assert texts.render(choose(number).judge(*(outputs if isinstance(outputs, tuple) else (outputs,)))) == complaint


def test_a_task_is_put_into_the_code_and_wrapped():
    task = "First words. " + "word " * 30 + "\n\n| x: an array. " + "more " * 30 + "\n| Return y."
    lines = documented("class A:\n    def f(self):\n        return 1  # {why}\n",
                       {"task": task, "task.f": "Short.", "task.why": "so"}, "task").splitlines()
    assert lines[1].startswith('    """First words. word') and lines[2].startswith("    word") and lines[3] == ""
    assert lines[4].startswith("    x: an array. more") and lines[5].startswith("        more")
    assert lines[6:] == ["    Return y.", '    """', "", "    def f(self):", '        """Short."""', "        return 1  # so"]
    assert max(map(len, lines)) <= 120 < len(lines[1]) + len("word ")


@pytest.fixture
def pseudo(tmp_path, monkeypatch):
    pseudo_language.write(tmp_path / "pseudo")
    monkeypatch.setenv(texts.VARIABLE, str(tmp_path / "pseudo"))


@pytest.mark.slow
def test_another_language_has_all_words_of_sheets_hints_and_explanations(pseudo):
    for exercise in EXERCISES:
        said = [exercise.title, *exercise.hints, *(mistake.explanation for mistake in exercise.mistakes),
                *(sentence for sentence, _ in exercise.invariants), *sheet_words(exercise.skeleton())]
        code = [name for part in exercise.imported for name in (part.__name__, *inspect.signature(part).parameters)]
        assert not [text for text in said if pseudo_language.plain_words(text, ["TODO", *code])], exercise.number
        said = [case.note for case in exercise.cases(0)]
        assert not [text for text in said if pseudo_language.plain_words(text)], exercise.number


def sheet_words(source):
    """The docstrings and comments of a file."""
    tree = ast.parse(source)
    documented = [part for part in ast.walk(tree) if isinstance(part, (ast.Module, ast.FunctionDef, ast.ClassDef))]
    comments = [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)
                if token.type == tokenize.COMMENT]
    return [ast.get_docstring(part) for part in documented if ast.get_docstring(part)] + comments


def test_commands_speak_the_language(pseudo, tmp_path, capsys):
    run(capsys, "exercise", "start", tmp_path, "01.2")
    path = tmp_path / choose("01.2").file
    assert not [text for text in sheet_words(path.read_text(encoding="utf-8"))
                if pseudo_language.plain_words(text, ["TODO"])]
    assert choose("01.2").hints[0].split()[0] in run(capsys, "exercise", "hint", "01.2", "--folder", tmp_path)[1]
    mistake = next(mistake for mistake in choose("01.2").mistakes if mistake.name == "SMB-1")
    path.write_text(choose("01.2").edited(mistake.edits), encoding="utf-8")
    said = run(capsys, "exercise", "check", "01.2", "--folder", tmp_path)[1]
    assert "".join(mistake.explanation.split()) in "".join(said.split())
