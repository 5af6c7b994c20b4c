"""The anonymous summary: what it counts, what it shows, and that nobody can be singled out."""

import re

import pytest
from helpers.commands import refused, run
from helpers.students import write_class
from PIL import Image

from numpy_transformer import views
from numpy_transformer.course.checker.messages import DIAGNOSIS
from numpy_transformer.course.exercises import choose, choose_several, exercises
from numpy_transformer.grading import anonymous
from numpy_transformer.grading.rows import Row, plain_line
from numpy_transformer.texts import Message

SOFTMAX, BACKWARD, LINEAR = choose("01.1"), choose("01.2"), choose("02.1")


def rows_of(exercise, **counts):
    """Rows of one exercise: so many of each status; a word in capitals is the name of a known mistake, or the answer."""
    rows = []
    for word, count in counts.items():
        for _ in range(count):
            student = f"Student Surname{len(rows)}"
            status = word if word in ("missing", "todo", "error") else "fail"
            status = "pass" if word == "right" else status
            name = word.replace("_", "-")
            known = [[name]] if name in [mistake.name for mistake in exercise.mistakes] else []
            shared = word.startswith("same")
            relation = Message("relations.whole.multiple", n=1, factor=2.0)
            lines = [plain_line("y[3] is 0.25, expected 0.75 (Surname's secret)"),
                     Message(DIAGNOSIS, said=Message("relations.sentence.plain", names="dz", relation=relation))]
            rows.append(Row(student, exercise.number, exercise.file.removesuffix(".py"), status,
                            exercise.points if status == "pass" else 0, exercise.points, 0.1, "note on Surname",
                            {"error": "error", "fail": "values"}.get(status, ""), lines if shared else [], known,
                            answer=word if shared else "", printed="Surname", ids={"canvas": "471147"}))
    return rows


@pytest.fixture
def school():
    return [*rows_of(SOFTMAX, right=20, SMF_1=2, missing=1, todo=7), *rows_of(BACKWARD, right=8, SMB_1=12, SMB_4=3, same=5,
            SMB_3=2), *rows_of(LINEAR, right=26, error=4)]


def test_results_are_counted_and_the_three_that_most_got_wrong_come_first(school):
    found = anonymous.results(school, [SOFTMAX, BACKWARD, LINEAR])
    assert [dict(result.counts) for result in found] == [
        {"right": 20, "wrong": 2, "not handed in": 1, "unfinished": 7}, {"right": 8, "wrong": 22}, {"right": 26, "wrong": 4}]
    assert [result.exercise for result in anonymous.discuss_first(found)] == [BACKWARD, LINEAR]     # 2 are too few
    findings = found[1].findings
    assert [(finding.students, finding.name) for finding in findings] == [
        (12, "SMB-1"), (5, ""), (3, "SMB-4"), (2, "SMB-3")]
    assert findings[0].wrong == "return p * (1 - p) * dp"
    assert findings[0].right == "return p * (dp - (p * dp).sum(-1, keepdims=True))"
    assert "dz is the correct result times 2." in findings[1].sentence
    assert found[2].findings[0].sentence == "Different mistakes that lead to code that stops with an error."


def shares_of(**counts):
    return list(anonymous.shares(anonymous.Result(SOFTMAX, rows_of(SOFTMAX, **counts))).values())


def test_shares_are_rounded_to_the_nearest_five_and_small_ones_are_less():
    assert shares_of(right=47, SMF_1=51, todo=1) == [45, 50, 2, 0]             # 47.5, 51.5 and 1 percent
    assert shares_of(right=48, SMF_1=51) == [50, 50, 0, 0]
    assert shares_of(right=500, SMF_1=3, todo=497) == [50, 2, 50, 0] and shares_of(right=30) == [100, 0, 0, 0]
    assert shares_of(right=997, SMF_1=3) == [98, 2, 0, 0]                       # nearly all, but not all
    assert anonymous.how_many(2) == "a few students" and anonymous.how_many(3) == "3 students"


def test_shares_do_not_tell_one_student_from_two():
    for others in range(5, 45):
        assert shares_of(right=others + 1, todo=1) == shares_of(right=others, todo=2)
        assert shares_of(right=others, todo=2, missing=1) == shares_of(right=others, todo=1, missing=2)
    assert shares_of(right=2, todo=1) == shares_of(right=1, todo=2) == [50, 0, 50, 0]


def test_bars_are_never_longer_than_the_whole():
    result = anonymous.Result(SOFTMAX, rows_of(SOFTMAX, right=28, todo=1, missing=1))
    assert anonymous.shares(result) == {"right": 90, "wrong": 0, "unfinished": 5, "not handed in": 5}
    result = anonymous.Result(SOFTMAX, rows_of(SOFTMAX, right=43, SMF_1=43, todo=14))       # 45 + 45 + 15
    assert sum(anonymous.widths(result).values()) == pytest.approx(100)
    assert anonymous.bar(result).count(">45%<") == 2
    assert ">over 95%<" in anonymous.bar(anonymous.Result(SOFTMAX, rows_of(SOFTMAX, right=99, todo=1)))


def test_the_lines_of_a_mistake_include_the_one_that_they_refer_to():
    """In these, an edit undoes what another line does; alone it would look like what the text says is missing."""
    catalog = {mistake.name: (exercise, mistake) for exercise in exercises().values() for mistake in exercise.mistakes}
    wrong, right = anonymous.changed_lines(*catalog["ATB-1c"])
    assert wrong == "ds = ds / math.sqrt(q.shape[-1])\ndk = ds.mT @ q * math.sqrt(k.shape[-1])"
    assert right == "ds = ds / math.sqrt(q.shape[-1])\ndk = ds.mT @ q"
    needed = {name for name, (_, mistake) in catalog.items() if mistake.context}
    assert needed >= {"ATB-1b", "ATB-1c", "BEAM-3d"}
    for exercise, mistake in map(catalog.get, needed):
        assert exercise.code.count(mistake.context) == 1
        assert all(mistake.context in lines for lines in anonymous.changed_lines(exercise, mistake))


def test_the_page_names_nobody_and_needs_nothing_else(school, tmp_path):
    path = anonymous.write_page(anonymous.results(school, [SOFTMAX, BACKWARD, LINEAR]), tmp_path / "page.html")
    page = path.read_text(encoding="utf-8")
    for word in ("Surname", "471147", "secret", "0.25", "note on"):
        assert word not in page
    assert not re.search(r"<script|https?:|src=|<link|@import", page)
    assert re.search(r"\b[12] students?\b", page) is None and "12 students" in page and "A few students" in page
    assert "prefers-color-scheme: dark" in page and "@media print" in page
    assert page.index("Softmax, backward", page.index("discuss first")) < page.index("stops with an error")
    assert "You average p dp over the row." in page and "return p * (1 - p) * dp" in page


def test_the_picture_shows_shares_and_mistakes_of_three_or_more(school, tmp_path):
    counts, mistakes = anonymous.for_picture(anonymous.results(school, [SOFTMAX, BACKWARD]))
    assert counts["ex01_2_softmax_backward"] == {"pass": 25, "fail": 75, "todo": 0, "missing": 0}
    assert [(entry["mistake"], entry["count"]) for entry in mistakes] == [("SMB-1", 12), ("SMB-4", 3)]
    figure = views.class_report(counts, mistakes, unit="share of the students in percent")
    assert figure.axes[0].get_xlabel() == "share of the students in percent"


def test_exercises_of_fewer_than_three_students_are_left_out():
    assert anonymous.results(rows_of(SOFTMAX, right=2, missing=20), [SOFTMAX]) == []
    assert len(anonymous.results(rows_of(SOFTMAX, right=1, SMF_1=2), [SOFTMAX])) == 1


def test_a_mistake_with_several_explanations_gives_them_all():
    rows = rows_of(BACKWARD, right=1, SMB_1=3)
    for row in rows[1:]:
        row.mistakes = [["SMB-1"], ["SMB-4", "SMB-3"]]
    finding, = anonymous.Result(BACKWARD, rows).findings
    assert finding.students == 3 and finding.name == "SMB-1 or SMB-4 and SMB-3"
    assert "derivative of the sigmoid" in finding.sentence and " Or: You average" in finding.sentence


@pytest.mark.slow
def test_the_command_writes_page_and_picture(tmp_path, capsys):
    write_class(tmp_path / "class", 12, choose_several(["01.1,01.2"]), seed=3)
    code, _, error = run(capsys, "grade", tmp_path / "class", "--out", tmp_path / "s.csv", "--anonymous",
                         tmp_path / "page.html", "--trust-students", "--allow-root")
    assert code == 0, error
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "12 students, 2 exercises" in page and "student0" not in page
    assert Image.open(tmp_path / "page.png").size[0] > 500
    assert ".html" in refused(capsys, "grade", tmp_path / "class", "--out", tmp_path / "s.csv", "--anonymous",
                              tmp_path / "page.txt", "--trust-students", "--allow-root")
