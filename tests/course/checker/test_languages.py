"""In another language the checker decides the same, and says it in sentences of that language only."""

import re

import pytest
from helpers import pseudo_language
from helpers.answers import numbers, read
from helpers.students import play, write_class

from numpy_transformer import texts
from numpy_transformer.cli import main
from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.feedback import feedback
from numpy_transformer.course.checker.localize import EDITS, about_places
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose
from numpy_transformer.course.sandbox.protocol import FoundEdit
from numpy_transformer.texts import Message, as_data, changed, from_data, listed, render
from numpy_transformer.texts.width import columns

CODE = ["numpy-transformer exercise hint", "forward", "backward", "True", "False", "nan", "inf", "float64", "float32",
        "bool", "sqrt"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pseudo")
    pseudo_language.write(folder)
    return folder


def kinds_of(said):
    """The kind of a message and of those inside it, and its numbers; no texts, which may be translated."""
    if isinstance(said, Message):
        return said.kind, {name: kinds_of(value) for name, value in said.values.items()}
    return None if isinstance(said, str) else said


def judged(number, source):
    """(what the checker decides, the lines that a student reads, the values in them that are a student's or Python's)."""
    key = AnswerKey(choose(number), 0)
    run = play(key, source)
    verdict = judge(key, run)
    decided = (verdict.status, verdict.stage, verdict.mistakes, verdict.right, verdict.explained, verdict.points(10),
               list(map(kinds_of, verdict.lines)))
    quoted = [result.report[key] for result in run.results for key in ("error", "code") if key in result.report]
    return decided, list(feedback(key.exercise, verdict, "", 80)), quoted


@pytest.mark.parametrize("number", [
    pytest.param(number, marks=[] if number in ("01.2", "06.1") else [pytest.mark.slow])
    for number in numbers("wrong")])
def test_a_verdict_is_the_same_in_another_language_and_says_nothing_in_english(number, folder, monkeypatch):
    exercise = choose(number)
    names = [*CODE, exercise.name, *exercise.parameters, *exercise.outputs, *(mistake.name for mistake in exercise.mistakes)]
    for answer in read("wrong", number)[:8]:
        monkeypatch.delenv(texts.VARIABLE, raising=False)
        decided, english, _ = judged(number, answer.source)
        monkeypatch.setenv(texts.VARIABLE, str(folder))
        again, translated, quoted = judged(number, answer.source)
        assert again == decided, answer.note
        assert len(translated) >= len(english) - 1 and max(map(columns, translated)) <= 80
        text = " ".join(" ".join(translated).split())
        for part in quoted:
            text = text.replace(" ".join(part.split()), " ")
        assert pseudo_language.plain_words(text, names) == [], (answer.note, text)


@pytest.mark.parametrize("inserts", [True, False])
def test_places_in_the_code_are_told_in_the_language(inserts, folder, monkeypatch):
    """Where the search for a place ends depends on the time it has, so what it finds is made up here."""
    found = [FoundEdit(line, kind, "a + b", "f(a + b)", inserts) for line, kind in enumerate(EDITS)]
    english = [render([about_places([edit, *found]), about_places([edit], ["2"])]) for edit in found]
    monkeypatch.setenv(texts.VARIABLE, str(folder))
    for text, edit in zip(english, found):
        translated = render([about_places([edit, *found]), about_places([edit], ["2"])])
        assert pseudo_language.translated(text) == translated and pseudo_language.plain_words(translated) == []


def test_every_status_and_stage_has_a_word():
    words = texts.texts_of("verdict")
    source = "".join(path.read_text(encoding="utf-8") for room in ("course/checker", "grading")
                     for path in (texts.FOLDER.parent / room).glob("*.py"))
    made = re.findall(r'Verdict\("(\w+)", "([\w ]+)"', source) + [("fail", "shape"), ("fail", "values"), ("fail", "finite")]
    assert len(made) > 10 and {status for status, _ in made} <= words["status"].keys()
    assert {stage for _, stage in made} <= words["stage"].keys()


def test_each_kind_that_the_checker_names_has_a_text():
    """Kinds that are put together from parts are rendered by the tests of relations and answers."""
    folder = texts.FOLDER.parent
    for path in [*folder.glob("course/checker/**/*.py"), *folder.glob("course/exercises/*.py"), *folder.glob("grading/*.py")]:
        for subject, section, key in re.findall(r'"([a-z]+)\.([a-z_]+)\.([\w ]+)"', path.read_text(encoding="utf-8")):
            if subject in ("verdict", "comparison", "relations", "places", "words"):
                assert {key, f"{key}.other"} & texts.texts_of(subject)[section].keys(), (path.name, subject, section, key)


@pytest.mark.slow
def test_a_class_gets_the_same_table_in_another_language(folder, tmp_path, monkeypatch):
    write_class(tmp_path / "class", 4, [choose(number) for number in ("01.2", "05.2", "08.4", "13.4")], seed=2)
    tables = []
    for language in ("", str(folder)):
        monkeypatch.setenv(texts.VARIABLE, language)
        out = tmp_path / f"table{len(tables)}.csv"
        assert main(["grade", str(tmp_path / "class"), "--seed", "1", "--trust-students", "--allow-root", "--out", str(out)]) == 0
        rows = [line.split(",")[:6] for line in out.read_text(encoding="utf-8").splitlines()]      # before seconds and note
        tables.append(rows)
    assert tables[0] == tables[1] and len(tables[0]) == 17


def test_lists_are_joined_as_the_language_joins_them(tmp_path, monkeypatch):
    assert [render(listed(["a", 2, "c"][:n])) for n in (1, 2, 3)] == ["a", "a and 2", "a, 2 and c"]
    assert render(listed(["a", "b", "c"], "or")) == "a, b or c"
    (tmp_path / "words.ini").write_text("[list]\nmore = {item}; {before}\nand = {item} & {before}\n", encoding="utf-8")
    monkeypatch.setenv(texts.VARIABLE, str(tmp_path))
    assert render(listed(["a", "b", "c"])) == "c & b; a"


def test_messages_become_data_and_come_back():
    said = Message("places.edit.first", line=3, place=Message("places.place.part", part="x"), rest=["a", Message("b.c.d", n=1.5)])
    assert from_data(as_data(said)) == said and as_data(said)["values"]["line"] == 3
    moved = changed(said, lambda name, value: value + 10 if name == "line" else value)
    assert moved.values["line"] == 13 and moved.values["rest"] == said.values["rest"] and said.values["line"] == 3
