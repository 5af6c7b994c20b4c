"""A lesson in another language: its file for a translator, what is shown from it, and what of it is out of date."""

import re
import sys
from types import ModuleType

import pytest
from helpers import pseudo_language
from helpers.lessons import translate
from helpers.pseudo_language import plain_words, translated

from numpy_transformer.cli import main
from numpy_transformer.course import claim, predict
from numpy_transformer.course.lessons import environment, helpers
from numpy_transformer.course.lessons.files import copy_lessons
from numpy_transformer.course.lessons.lesson import start
from numpy_transformer.course.lessons.notebook import notebook
from numpy_transformer.course.lessons.run import run_lesson
from numpy_transformer.course.lessons.translation import ENTRY, Translation, texts_of, write_translation

LESSON = '''# %% [markdown]
# # 07 Tiny
#
# A lesson about `x`, which is short:
#
#     x = 6

# %% Imports
from matplotlib.figure import Figure

from numpy_transformer.course import claim, figure, predict, show

x = 6

# %% Numbers
show(x=[x, 2.5])
predict("is x even?", "yes", "Two divides it.")
predict(f"how many threes are in {x}?", "two threes", why="Three and three.")
for name, value in (("the sum", x), ("the product", 6.0)):
    claim(f"{name} is {x}", value == 6, detail=f"computed as {value:.1f}")
figure("empty", Figure())

# %% [markdown]
# ## Exercises
#
# 1. Why?
'''
PAGE = "# Answers\n\n1. Because it is.\n"
COMMANDS = {"numpy-transformer build start mine", "numpy-transformer build check 6"}
NAMES = COMMANDS | {"Enter", "Ctrl", "Python", "README", "md", "my-figures/empty.png", "float64", "int64", "min",
                    "mean", "max", "EXPR", "Figure", "figure", "png", "07_tiny.md"}


VARIABLES = {"hm", "the product", "int", "str", "float", "layer", "name", "value", "TypeError"}


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """A lesson, in a language with wide letters whose folder is called xx."""
    path = tmp_path / "lessons" / "07_tiny.py"
    path.parent.mkdir()
    path.write_text(LESSON, encoding="utf-8")
    (path.parent / "answers").mkdir()
    (path.parent / "answers" / path.with_suffix(".md").name).write_text(PAGE, encoding="utf-8")
    pseudo_language.write(tmp_path / "xx", ["lessons"])
    monkeypatch.setenv("NUMPY_TRANSFORMER_LANGUAGE", str(tmp_path / "xx"))
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    monkeypatch.chdir(tmp_path)
    return path


def step(lesson, monkeypatch, *keys):
    answers = iter(keys)

    def answer(question):
        print(question)
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None
    monkeypatch.setattr("builtins.input", answer)
    return run_lesson(lesson, True)


def without_source(output):
    """The output without the lines of source, which begin with their number."""
    return "\n".join(line for line in output.splitlines() if not re.match(r" *\d+  | *↳", line))


def test_every_sentence_of_a_straight_run_is_translated(lesson, capsys):
    translate(lesson, "xx")
    assert run_lesson(lesson, False) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.count("✓") == 2 and out.count("?") == 4 and translated("the sum is") + " 6" in out
    assert not plain_words(out, NAMES)


def test_every_sentence_of_the_stepper_is_translated(lesson, monkeypatch, capsys):
    translate(lesson, "xx")
    monkeypatch.setattr("code.interact", lambda banner, local, exitmsg: print(banner))
    monkeypatch.setattr("numpy_transformer.course.lessons.stepper.open_picture", lambda path: False)
    assert step(lesson, monkeypatch, "b", "o", "v", "a", "", "r", "g 9", "hm", "?", "i", "", "maybe", "no", "", "v", "6", "", "v", "e x", "o",
                "l", "r", "maybe", "y", "7", "", "b", "", "", "", "", "r", "a", "a 7", "a", "g 1",
                "r") == 0
    out = without_source(capsys.readouterr().out)
    assert translated("Because it is.") in out and translated("yes or no?") in out
    assert not plain_words(out.replace(str(lesson.parent.parent), ""), NAMES | VARIABLES)


def test_a_wrong_guess_a_broken_claim_and_no_answer_are_translated(lesson, monkeypatch, capsys):
    translate(lesson, "xx")
    lesson.write_text(LESSON.replace("x = 6\n\n# %% Numbers", "x = 7\n\n# %% Numbers"), encoding="utf-8")
    monkeypatch.setattr(helpers, "ask", lambda question: "")
    assert run_lesson(lesson, False) == 1
    out, err = capsys.readouterr()
    assert translated("the answer") in out and translated("Two divides it.") in out and not plain_words(out, NAMES)
    assert not plain_words(err, {"AssertionError", "07_tiny.py"}) and translated("claim does not hold") in err


def test_an_answer_counts_in_both_languages(lesson, monkeypatch, capsys):
    translate(lesson, "xx")
    monkeypatch.setattr(helpers, "translation", Translation(lesson))
    for guess in ("two threes", translated("two threes"), "yes", translated("Y")):
        monkeypatch.setattr(helpers, "ask", lambda question, guess=guess: guess)
        predict("is x even?" if "y" in guess.lower() or "ｙ" in guess.lower() else "how many threes are in 6?",
                "yes" if "y" in guess.lower() or "ｙ" in guess.lower() else "two threes")
        assert translated("correct") in capsys.readouterr().out, guess
    claim("not in the file", True)
    assert capsys.readouterr().out == "  ✓ not in the file\n"


def test_the_notebook_has_the_translated_prose_titles_and_answers_and_the_same_code(lesson):
    english = [cell["source"] for cell in notebook(lesson)["cells"] if cell["cell_type"] == "code"]
    translate(lesson, "xx")
    cells = notebook(lesson)["cells"]
    assert [cell["source"] for cell in cells if cell["cell_type"] == "code"] == english
    prose = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert "    ｘ = 6" in prose and translated("Numbers") in prose and translated("Because it is.") in prose
    assert not plain_words(prose, COMMANDS | {"details", "summary", "Enter"})


def test_claims_in_a_notebook_are_translated_by_the_file_of_its_lesson(lesson, monkeypatch, capsys):
    translate(lesson, "xx")
    monkeypatch.setattr(helpers, "translation", None)
    monkeypatch.setattr(environment, "given_number", None)
    start("__main__", "07")
    claim("the sum is 9", True, "computed as 9.0")
    assert not plain_words(capsys.readouterr().out, {"numpy", "transformer", "lesson", "step"})
    start("__main__", "42")                                # not one of the lessons that are found
    assert helpers.translation is None


def test_what_is_out_of_date_or_unknown_is_said_once_and_shown_in_english(lesson, capsys):
    file = translate(lesson, "xx")
    lesson.write_text(LESSON.replace("Two divides it.", "It is twice three.").replace("is x even?", "is x odd?").replace(
        "# 1. Why?", "# 1. Why not?").replace('    claim(f"{name} is {x}"', '    claim("it is"'), encoding="utf-8")
    assert run_lesson(lesson, False) == 0
    out, err = capsys.readouterr()
    assert "? is x odd?" in out and translated("how many threes") in out
    assert len(err.splitlines()) == 2 and err.count("07_tiny.md") == 2
    changed, unknown = err.splitlines()
    assert all(place in changed for place in ("cell 3, question 1", "cell 3, why 1", "cell 3, claim 1", "cell 4"))
    assert "cell 3, name 1; cell 3, name 2" in unknown
    write_translation(lesson, file)                         # what was translated stays, below the new English
    text = file.read_text(encoding="utf-8")
    assert f"It is twice three.\n-->\n{translated('Two divides it.')}" in text and ", was " in text
    assert translated("the sum") in text and run_lesson(lesson, False) == 0
    assert "cell 3, why 1" in capsys.readouterr().err       # until its translator says that it is right again
    file.write_text(re.sub(r", was \w+", "", text), encoding="utf-8")
    assert run_lesson(lesson, False) == 0 and "cell 3, why 1" not in capsys.readouterr().err


def test_a_moved_text_keeps_its_translation(lesson, capsys):
    translate(lesson, "xx")
    lesson.write_text(LESSON.replace("# %% Imports", "# %% [markdown]\n# New.\n\n# %% Imports"), encoding="utf-8")
    assert run_lesson(lesson, False) == 0
    out, err = capsys.readouterr()
    assert err == "" and not plain_words(out, NAMES)


def test_the_command_writes_the_file_and_counts(lesson, capsys):
    assert main(["lesson", "07", "--translation", "lessons/xx/07_tiny.md"]) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().out)
    file = lesson.parent / "xx" / "07_tiny.md"
    entries = [(entry["place"], entry["text"].strip()) for entry in ENTRY.finditer(file.read_text(encoding="utf-8"))]
    assert dict(entries).keys() == texts_of(lesson).keys() and {text for _, text in entries} == {""}
    assert f" {len(entries)} " in said and " 0 " in said
    assert main(["lesson", "07", "--translation", "07.txt"]) == 2 and "07.txt" in capsys.readouterr().err
    assert main(["lesson", "list", "--translation", "07.md"]) == 2
    translate(lesson, "xx")
    assert main(["lesson"]) == 0
    assert not plain_words(capsys.readouterr().out, {"numpy", "transformer", "lesson", "step"})
    (lesson.parent / "xx" / "07_tiny.md").write_bytes(b"\xff")
    assert main(["lesson"]) == 2
    capsys.readouterr()
    assert run_lesson(lesson, False) == 2 and "07_tiny.md" in capsys.readouterr().err


def test_copies_of_the_lessons_include_the_translations(lesson, monkeypatch, tmp_path):
    translate(lesson, "xx")
    monkeypatch.setattr("numpy_transformer.course.lessons.files.CHECKOUT", lesson.parent)
    written, _ = copy_lessons(tmp_path / "mine")
    assert tmp_path / "mine" / "xx" / "07_tiny.md" in written
