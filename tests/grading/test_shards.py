"""Parts of a class that are graded separately, and the tables joined from them."""

import collections
import json

import pytest
from helpers.quick import quick
from test_journal import row

from numpy_transformer.course.exercises import choose
from numpy_transformer.grading import report, shards
from numpy_transformer.grading.arrival import Student
from numpy_transformer.grading.shards import (Record, choose_students, in_shard, merge, parse_shard, read_record,
                                              replace_rows)
from numpy_transformer.texts import Message

SOFTMAX, BACKWARD = choose("01.1"), choose("01.2")
VERSIONS = {"numpy_transformer": "1", "numpy": "2", "python": "3"}
NAMES = [f"student {i:03}" for i in range(200)] + ["Zoë", "Nguyễn Văn An", "李伟", "O'Neil, Kim", "kim\udc80"]
SAID = [Message("verdict.known.one", names="SMB-1"), Message("verdict.values.invariant", invariant="x", error=0.5)]


def settings(**more):
    return {"seed": 5, "timeout": 10.0, "memory": 1024, "versions": VERSIONS, **more}


def rows_of_class(names=NAMES):
    """Rows with every kind of content, two for each student."""
    made = []
    for i, name in enumerate(sorted(names)):
        made.append(row(name, number="01.1", exercise="ex01_1_softmax", status="pass", points=2, ids={"canvas": str(i)}))
        made.append(row(name, note="y is wrong", stage="values", lines=SAID, unusual=True,
                        mistakes=[["SMB-1"], ["SMB-2"]], remarks=["2 files; the newest counts"],
                        printed="one\ntwo", answer="0123", points=1.25, ids={"canvas": str(i)}, late=2, deducted=0.75,
                        submitted="2026-11-20T23:59:00+01:00"))
    return made


def write_record(path, rows, more, problems=None):
    summary = report.summary(rows, [SOFTMAX, BACKWARD])
    report.write_json(report.document(rows, more, summary, problems), path)
    return path.read_bytes()


@pytest.mark.parametrize("count", [1, 2, 3, 16, 97])
def test_each_student_is_in_exactly_one_shard(count):
    found = collections.Counter(name for number in range(1, count + 1) for name in NAMES
                                if in_shard(name, (number, count)))
    assert found == dict.fromkeys(NAMES, 1)


def test_the_shard_of_a_student_depends_on_the_name_alone():
    """Expected values from sha256sum: printf kim | sha256sum | cut -c1-16, as a number modulo the count."""
    assert [k for k in range(1, 8) if in_shard("kim", (k, 7))] == [0x26ae784d194a5760 % 7 + 1]
    assert [in_shard("Zoë", (k, 7)) for k in range(1, 8)] == [in_shard("Zoe\u0308", (k, 7)) for k in range(1, 8)]
    sizes = [sum(in_shard(name, (k, 4)) for name in NAMES) for k in range(1, 5)]
    assert min(sizes) > 30                      # 51 on average


def place_in(content, path):
    """The object that holds the last key of a path, and that key."""
    *before, key = path
    for step in before:
        content = content[step]
    return content, key


@pytest.mark.parametrize("path, value", [
    (["seed"], "5"), (["seed"], True), (["versions"], []), (["versions"], {}), (["policy"], {"due": "x"}),
    (["left_out"], {"a": 1}),
    (["shard"], "9/1"), (["students"], {}), (["students", 0], 7),
    (["students", 0, "student"], 7), (["students", 0, "ids"], ["x"]),
    (["students", 0, "problems"], [1]), (["students", 0, "tests", 0, "points"], "2"),
    (["students", 0, "tests", 0, "max"], None),
    (["students", 0, "tests", 0, "seconds"], float("inf")), (["students", 0, "tests", 0, "status"], "passed"),
    (["students", 0, "tests", 0, "number"], "99.9"), (["students", 0, "tests", 0, "stage"], "nowhere"),
    (["students", 0, "tests", 1, "lines", 0, "kind"], "verdict.no.such"),
    (["students", 0, "tests", 1, "lines", 0, "values"], {}),
    (["students", 0, "tests", 1, "misconceptions"], ["SMB-1"]), (["students", 0, "tests", 1, "remarks"], "one")])
def test_a_record_of_another_form_is_refused(path, value, tmp_path):
    file = tmp_path / "scores.json"
    write_record(file, rows_of_class(["kim"]), settings(shard="1/1", left_out={}))
    content = json.loads(file.read_bytes())
    inside, key = place_in(content, path)
    inside[key] = value
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="does not hold the results of a grading by this version .*; move it away"):
        read_record(file)


def test_students_are_chosen_by_name_or_id():
    class_ = [Student("Kim, Lee"), Student("ada", {"moodle": "17"}), Student("zoe")]

    def chosen(*texts, shard=None):
        return [student.name for student in choose_students(class_, texts, shard)]

    assert chosen() == ["Kim, Lee", "ada", "zoe"] and chosen("zoe, 17") == ["ada", "zoe"]
    assert chosen("Kim, Lee", "zoe") == ["Kim, Lee", "zoe"] and chosen("ada,") == ["ada"]
    assert sorted(chosen(shard=(1, 2)) + chosen(shard=(2, 2))) == chosen()
    with pytest.raises(ValueError, match="no student 'ben' in this class.*such as 'Kim, Lee', or by an id"):
        chosen("ada,ben")


def test_students_are_found_as_people_write_their_names():
    class_ = [Student("lopezali", {"canvas": "7"}), Student("Müller, Anna", {"moodle": "1"}), Student("kim"),
              Student("Lee, Kim (11)", {"moodle": "11"}), Student("Lee, Kim (12)", {"moodle": "12"}), Student("lee")]

    def chosen(*texts):
        return [student.name for student in choose_students(class_, texts, None)]

    assert chosen("Ali Lopez") == chosen("Lopez, Ali") == chosen("Lopez,Ali") == chosen("7") == ["lopezali"]
    assert chosen("Anna Muller") == ["Müller, Anna"] and chosen("Ali Lopez, anna müller") == ["lopezali", "Müller, Anna"]
    for text, words in (("Kim Lee", "'Lee, Kim \\(11\\)' \\(moodle 11\\) or 'Lee, Kim \\(12\\)' \\(moodle 12\\)"),
                        ("Lopez", "no student 'Lopez' in this class; did you mean 'lopezali' \\(canvas 7\\)\\?"),
                        ("Ana Müller", "did you mean 'Müller, Anna'")):
        with pytest.raises(ValueError, match=words):
            chosen(text)


def test_shards_are_read_from_text():
    assert parse_shard("3/16") == (3, 16) and parse_shard("1/1") == (1, 1)
    for text in ("0/3", "4/3", "3", "3/", "/3", "a/b", "-1/3", "1/3/4", "٣/٤", "1/100001", "1.0/2"):
        with pytest.raises(ValueError, match="write 3/16"):
            parse_shard(text)


def test_a_record_holds_every_row_as_it_was(tmp_path):
    names = NAMES[:5] + ["Zoë"]
    rows = rows_of_class(names)
    write_record(tmp_path / "scores.json", rows, settings(shard="1/2"), {"Zoë": ["homework.zip: broken"]})
    record = read_record(tmp_path / "scores.json")
    assert record.rows == rows and record.settings == settings(shard="1/2")
    assert record.problems == {"Zoë": ["homework.zip: broken"]}
    assert read_record(tmp_path / "none.json") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '{"seed": "x", "students": []}', '{"seed": 1, "students": [{}]}',
                                  '{"seed": 1, "students": 3}', "[" * 100_000, "\udc80"])
def test_a_file_that_is_no_record_is_refused(text, tmp_path):
    (tmp_path / "scores.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(ValueError, match="does not hold the results of a grading by this version"):
        read_record(tmp_path / "scores.json")


@pytest.mark.parametrize("count", quick(1, [3, 1, 16]))
def test_joined_parts_are_what_one_run_gives_byte_for_byte(count, tmp_path):
    names = [name for name in NAMES if name.isprintable()]
    rows, problems = rows_of_class(names), {"Zoë": ["homework.zip: broken"], names[0]: ["a.pdf: no Python"]}
    whole = write_record(tmp_path / "whole.json", rows, settings(), problems)
    report.write_csv(rows, tmp_path / "whole.csv")
    records = {}
    for number in reversed(range(1, count + 1)):
        own = [entry for entry in rows if in_shard(entry.student, (number, count))]
        path = tmp_path / f"part{number}.json"
        write_record(path, own, settings(shard=f"{number}/{count}"), {name: problems[name] for name in problems})
        records[path.name] = read_record(path)
    joined = merge(records)
    assert write_record(tmp_path / "joined.json", joined.rows, joined.settings, joined.problems) == whole
    report.write_csv(joined.rows, tmp_path / "joined.csv")
    assert (tmp_path / "joined.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def part(shard, names, numbers=("01.1", "01.2"), **more):
    rows = [entry for entry in rows_of_class(names) if entry.number in numbers]
    return Record(settings(**({"shard": shard} if shard else {}), **more), rows, {})


@pytest.mark.parametrize("parts, words", [
    ([part("1/2", ["a"]), part("2/2", ["b"], versions={**VERSIONS, "numpy": "9"})], "part0 has numpy 2 and part1 has numpy 9, so that"),
    ([part("1/2", ["a"]), part("2/2", ["b"], seed=6)], "part0 has seed 5 and part1 has seed 6"),
    ([part("1/2", ["a"]), part("2/2", ["b"], memory=512)], "part1 has memory 512"),
    ([part("1/2", ["a"]), part("2/2", ["b"], policy={"late": "20%", "attempts": "last"})],
     "part0 has no --late, no --attempts and part1 has --late 20%, --attempts last, so that"),
    ([part("1/2", ["a"]), part("2/2", ["b"], ("01.1",))], "only one of them has ex01_2_softmax_backward"),
    ([part("1/3", ["a"]), part("3/3", ["b"])], "missing parts: 2/3"),
    ([part("1/2", ["a"]), part("1/2", ["b"]), part("2/2", ["c"])], "parts named twice: 1/2"),
    ([part("1/2", ["a"]), part("2/3", ["b"])], "not parts of one class"),
    ([part("1/2", ["a"]), part("", ["b"])], "not parts of one class"),
    ([part("1/2", ["a"]), part("2/2", ["a"])], "the student 'a' is in part0 and in part1"),
    ([part("", ["a", "b"]), part("", ["b"])], "the student 'b' is in part0 and in part1")])
def test_tables_that_do_not_belong_together_are_refused(parts, words):
    with pytest.raises(ValueError, match=words):
        merge({f"part{i}": record for i, record in enumerate(parts)})


def test_two_sections_and_an_empty_part_are_joined():
    assert [entry.student for entry in merge({"x": part("", ["b"]), "y": part("", ["a"])}).rows] == ["a", "a", "b", "b"]
    joined = merge({"x": part("2/2", ["b"]), "y": part("1/2", [])})
    assert [entry.student for entry in joined.rows] == ["b", "b"] and "shard" not in joined.settings


def test_rows_graded_again_take_the_place_of_the_old_ones():
    old = [row("a", points=1), row("b", points=1), row("b", number="01.1", points=1)]
    new = [row("b", points=2), row("0", points=2)]
    found = [(entry.student, entry.number, entry.points) for entry in replace_rows(old, new)]
    assert found == [("0", "01.2", 2), ("a", "01.2", 1), ("b", "01.1", 1), ("b", "01.2", 2)]
    assert json.dumps(found)                    # plain numbers
