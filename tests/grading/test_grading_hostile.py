"""Hostile and odd submissions: none earns a point, stops the others or leaves files or processes. Each gets a note.

They aim at files in tmp_path alone, and what they start ends by itself.
"""

import contextlib
import csv
import ctypes
import errno
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from numpy_transformer.classroom.exercises import choose
from numpy_transformer.classroom.sandbox import isolation, reading, rights
from numpy_transformer.grading.submissions import unusual_names
from numpy_transformer.cli import main

EXERCISE = choose("01.2")
RIGHT = EXERCISE.edited()
WRONG = "def softmax_backward(p, dp):\n    return dp\n"
posix = pytest.mark.skipif(os.name != "posix", reason="processes and links of POSIX")

# More of them, in bytes or with odd names of students: {student: (file, statuses that are right for it)}
ODD = {
    "deep syntax": ("x = " + "-" * 90_000 + "1\n", {"error", "memory", "timeout"}),
    "latin": ("x = 'caf\xe9'\n".encode("latin-1") + WRONG.encode(), {"error"}),
    "utf16": (WRONG.encode("utf-16"), {"error"}),
    "zeros": (b"\0" * 5000, {"error"}),
    "empty": ("", {"error"}),
    "other name": (RIGHT.replace("def softmax_backward", "def softmax_backwards"), {"error"}),
    **{name: (WRONG, {"fail"}) for name in ("=2+5+cmd", "@SUM(1)", "-1+1", "+1", "line\nbreak\x1b[2J", "turned\u202e")},
}


def written():
    """{student: (file, statuses)} from hostile.txt."""
    found = {}
    for part in (Path(__file__).parent / "hostile.txt").read_text(encoding="utf-8").split("\n=== ")[1:]:
        head, _, source = part.partition("\n")
        name, _, statuses = head.partition(": ")
        found[name] = source.replace("WRONG\n", WRONG), set(statuses.split())
    return found


HOSTILE = {**written(), **ODD}
SAMPLE = {name: HOSTILE[name] for name in (                 # one of each kind; the slow run grades all of them
    "loop", "fork", "kill", "exit at once", "flood", "forged score", "patched worker", "writes elsewhere",
    "reads the others", "loads a library", "other name", "line\nbreak\x1b[2J")}


def grade(folder, out, *options):
    """Rows by student, and what was printed."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        code = main(["grade", str(folder), "--out", str(out), "--allow-root", "--only", "01.2", "--seed", "5", *options])
    assert code == 0, text.getvalue()
    with open(out, encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}, text.getvalue()


@pytest.fixture(scope="module", params=[SAMPLE, pytest.param(HOSTILE, marks=pytest.mark.slow)], ids=["sample", "all"])
def graded(request, tmp_path_factory):
    """The hostile class with an honest student at each end, graded once: (folder, rows, text, what was left, class)."""
    base = tmp_path_factory.mktemp("hostile")
    folder, target = base / "class", base / "target"
    paths = {"{TARGET}": repr(str(target)), "{OTHER}": repr(str(folder / "anna" / EXERCISE.file)),
             "{PACKAGE}": repr(str(Path(isolation.__file__).parents[2]))}
    for name, (source, _) in {**request.param, "anna": (RIGHT, {}), "zoe": (RIGHT, {})}.items():
        (folder / name).mkdir(parents=True)
        for key, path in paths.items():
            source = source.replace(key, path) if isinstance(source, str) else source
        (folder / name / EXERCISE.file).write_bytes(source if isinstance(source, bytes) else source.encode())
    odd_files(folder)
    temporary = tempfile.mkdtemp()
    os.chmod(temporary, 0o711)                  # the user nobody has to get through
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADER_MARK", "1")
        patch.setattr(tempfile, "tempdir", temporary)
        rows, text = grade(folder, base / "scores.csv", "--timeout", "2", "--jobs", "4", "--json",
                           str(base / "scores.json"), "--feedback", str(base / "feedback"))
    left = os.listdir(temporary)
    os.rmdir(temporary)
    return base, rows, text, left, request.param


def odd_files(folder):
    """Students whose file is no plain file of a moderate size."""
    for name in ("linked", "linked folder", "piped", "directory", "huge", "two", "elsewhere"):
        (folder / name).mkdir()
    (folder / "huge" / EXERCISE.file).write_text(RIGHT + "#" * (1 << 20), encoding="utf-8")
    (folder / "directory" / EXERCISE.file).mkdir()
    (folder / "elsewhere" / "my_answer.py").write_text(RIGHT, encoding="utf-8")
    for name in ("ex01_2.py", "ex01_2_new.py"):
        (folder / "two" / name).write_text(RIGHT, encoding="utf-8")
    if os.name == "posix":
        os.symlink(folder / "anna" / EXERCISE.file, folder / "linked" / EXERCISE.file)
        os.rmdir(folder / "linked folder")
        os.symlink(folder / "anna", folder / "linked folder")
        os.mkfifo(folder / "piped" / EXERCISE.file)


def shown(name):
    """A student's name in the table."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return "'" + plain if plain[0] in "=+-@" else plain


@posix
def test_no_hostile_program_earns_a_point_and_each_gets_a_note(graded):
    for name, (_, statuses) in graded[4].items():
        row = graded[1][shown(name)]
        assert row["points"] == "0" and row["max"] == str(EXERCISE.points), row
        assert row["status"] in statuses, row
        assert row["note"] and row["note"].isprintable() and len(row["note"]) <= 600, row


@posix
@pytest.mark.parametrize("name, status, word", [
    ("linked", "error", "link"), ("linked folder", "missing", "no file"), ("piped", "error", "readable"),
    ("directory", "error", "readable"), ("huge", "error", "1 MB"), ("two", "error", "ex01_2.py, ex01_2_new.py"),
    ("elsewhere", "missing", "my_answer.py")])
def test_links_pipes_and_folders_are_not_graded_as_files(graded, name, status, word):
    row = graded[1][name]
    assert (row["points"], row["status"]) == ("0", status) and word in row["note"], row


@posix
def test_the_other_students_are_graded_as_usual(graded):
    base, rows, text, left, hostile = graded
    for name in ("anna", "zoe"):
        assert rows[name]["status"] == "pass" and rows[name]["points"] == rows[name]["max"], rows[name]
    assert len(rows) == len(hostile) + 9 and "2 of " in text
    assert not left, "temporary folders stayed behind"
    assert not (base / "target").exists()
    assert {path.name for path in base.iterdir()} == {"class", "scores.csv", "scores.json", "feedback", "scores.png"}
    assert (base / "class" / "anna" / EXERCISE.file).read_text(encoding="utf-8") == RIGHT


@posix
def test_no_secret_of_the_grader_reaches_a_student(graded):
    base, _, text, _, hostile = graded
    everything = [path.read_text(encoding="utf-8") for path in (base / "feedback").iterdir()]
    assert len(everything) == len(hostile) + 9
    assert not any(word in file for file in everything for word in ("LEAK", "GRADER_MARK=", "\x1b", "\u202e"))
    assert "\x1b[2J" not in text and max(map(len, everything)) < 40_000
    students = json.loads((base / "scores.json").read_text(encoding="utf-8"))["students"]
    assert sum(student["points"] for student in students) == 2 * EXERCISE.points


@posix
def test_suspicious_names_are_reported_to_the_teacher(graded):
    for name, word in (("reads the others", "exec, open"), ("loads a library", "ctypes"), ("kill", "os"),
                       ("patched worker", "sys")):
        assert f"for you to look at: {word}" in graded[1][name]["note"]


FAMILY = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        os.fork()
        with open('pids', 'a') as file:
            file.write(f'{{os.getpid()}}\\n')
        time.sleep(5)
        os._exit(0)
time.sleep({})
"""


@posix
def test_the_note_says_what_stopped_a_program(graded):
    wanted = {"flood": os.strerror(errno.EFBIG), "fills the disk": "64 MB", "fork": "os.fork is refused",
              "loop": "stopped after 2 seconds", "memory": "memory", "exit at once": "ended early",
              "other name": "did you mean softmax_backwards?", "imports the answer": "use only NumPy"}
    there = wanted.keys() & graded[4].keys()
    assert len(there) == (len(wanted) if graded[4] is HOSTILE else 5)
    for name in there:
        assert wanted[name] in graded[1][name]["note"], graded[1][name]


@pytest.mark.slow
@posix
def test_killing_a_child_kills_its_grandchildren(tmp_path):
    """Also those that are started by others while the first are killed; each would end by itself in five seconds."""
    for own in (5, 0):                                      # the child itself is alive, or has ended
        child = subprocess.Popen([sys.executable, "-c", FAMILY.format(own)], cwd=tmp_path, start_new_session=True)
        end = time.monotonic() + 5
        while time.monotonic() < end and len(pids(tmp_path)) < 8:
            time.sleep(0.01)
        assert len(pids(tmp_path)) == 8
        isolation.kill(child)
        end = time.monotonic() + 2                          # somebody has to collect the dead
        while time.monotonic() < end and any(map(alive, pids(tmp_path))):
            time.sleep(0.01)
        assert not any(map(alive, pids(tmp_path)))
        (tmp_path / "pids").unlink()


def pids(folder):
    path = folder / "pids"
    return [int(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def header(kind, shape):
    """A file of 16 bytes of data; of one entry of 16 bytes, if the shape says so."""
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(16)


def test_an_array_is_read_only_as_numpy_writes_it(tmp_path):
    path = tmp_path / "out.npy"
    rng = np.random.default_rng(0)
    y = rng.standard_normal((3, 4))
    for right in (y, y.T, y > 0, y.astype(np.float32), np.float32(2.5), np.arange(5), np.ones((0, 4)), np.uint8([[7]])):
        np.save(path, right)
        got = reading.read_array(path)
        assert got.dtype == right.dtype and got.shape == right.shape and np.array_equal(got, right)
    np.save(path, np.ones(3))
    whole = path.read_bytes()
    for wrong in (header("'|O'", "(1,)"), header("'<f8'", "(9, 9)"), header("'<f3'", "(1,)"), header("'<c16'", "(1,)"),
                  header("'<U4'", "(1,)"), header("'<f8'", "(1" + "1" * 90 + ",)"), header("[('a', '<f8')]", "(1,)"),
                  header("'<f8'", "(-1,)"), header("'<f8'", "(3,)"), whole[:40], b"", whole[:-1], whole + b"x",
                  whole.replace(b"\x01\x00", b"\x02\x00", 1)):
        path.write_bytes(wrong)
        assert reading.read_array(path) is None, wrong
    np.save(path, np.ones(reading.LARGEST))
    assert reading.read_array(path) is None


def test_messages_of_a_child_are_cut_and_other_values_dropped(tmp_path):
    path = tmp_path / "report.json"
    report = {"error": "x" * 9000, "kinds": ["y" * 900] * 40, "score": 100, "nested": [["a"]], "none": None}
    path.write_text(json.dumps(report), encoding="utf-8")
    assert reading.read_report(path) == {"error": "x" * 2000, "kinds": ["y" * 200] * 20}
    for text in ("[" * 60_000, "[]", "7", '"pass"', "{", "", '{"a": 1' + "0" * 5000 + "}"):
        path.write_text(text, encoding="utf-8")
        assert reading.read_report(path) == {}
    path.write_text(json.dumps({"error": "x" * (1 << 17)}), encoding="utf-8")
    assert reading.read_report(path) == {}                      # too large to be ours


@posix
def test_results_are_not_read_through_links_and_pipes(tmp_path):
    (tmp_path / "real").write_bytes(b"content")
    os.symlink(tmp_path / "real", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert reading.read_bytes(tmp_path / "real") == b"content" and reading.read_bytes(tmp_path / "real", 3) is None
    assert [reading.read_bytes(tmp_path / name) for name in ("link", "pipe", "folder", "none")] == [None] * 4


HOOKED = """
import sys
sys.path.insert(0, {classroom!r})
from limits import install_audit_hook
install_audit_hook([{readable!r}], {secret!r})
for path in {paths!r}:
    try:
        print(open(path).read())
    except PermissionError as error:
        print(f"refused: {{error}}")
"""


@posix
def test_a_package_among_the_readable_files_stays_closed(tmp_path):
    """An installed package lies in the folder from which a student's program may load NumPy."""
    packages, here = tmp_path / "site-packages", tmp_path / "here"
    for folder in (packages / "numpy", packages / "numpy_transformer", here):
        folder.mkdir(parents=True)
        (folder / "file.py").write_text(f"text of {folder.name}", encoding="utf-8")
    paths = [str(folder / "file.py") for folder in (packages / "numpy", packages / "numpy_transformer", here)]
    paths.append(str(packages / "numpy" / ".." / "numpy_transformer" / "file.py"))
    program = HOOKED.format(classroom=os.path.dirname(isolation.__file__), readable=str(packages),
                            secret=str(packages / "numpy_transformer"), paths=paths)
    child = subprocess.run([sys.executable, "-I", "-c", program], cwd=here, capture_output=True, text=True, check=True)
    numpy, package, own, detour = child.stdout.splitlines()
    assert (numpy, own) == ("text of numpy", "text of here")
    assert package == detour and package.startswith("refused: open of 'file.py' is refused")


@posix
def test_a_folder_is_removed_in_whatever_state_it_was_left(tmp_path):
    folder = tmp_path / "left"
    deep = folder
    for _ in range(1500):
        deep = deep / "a"
    os.makedirs(folder)
    for path in [*reversed(deep.parents), deep][-1500:]:
        os.mkdir(path)
    os.symlink(tmp_path, folder / "link")
    (tmp_path / "stays").write_text("x", encoding="utf-8")
    os.chmod(folder / "a" / "a", 0)
    os.chmod(folder, 0o500)
    isolation.remove(folder)
    assert not folder.exists() and (tmp_path / "stays").exists()
    for name in ("one", "two"):                             # and as it is as a rule
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
    isolation.remove(folder)
    assert not folder.exists()


def test_suspicious_names_are_found_in_code_but_not_in_comments():
    source = (b'"""open and exec"""\nimport numpy as np, os.path, sys as s\nfrom math import exp\n# eval\n'
              b"def f(x): import pickle; return open\nfrom json import loads as eval_\n")
    assert unusual_names(source) == ["json", "open", "os", "pickle", "sys"]
    assert unusual_names(RIGHT.encode()) == [] and unusual_names(b"import os\n(((((") == ["os"]
    for text in (b"\xff\xfe", b"\0\0", b"-" * 90_000, b"(" * 90_000, b"# coding: nonsense\n", b"x = '\n"):
        unusual_names(text)
    assert unusual_names(b"#" * 200_000) == ["more than 100 kB"]


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of Linux")
@pytest.mark.skipif(rights.is_root(), reason="does not hold for root")
def test_no_process_can_be_started():
    folder = os.path.dirname(isolation.__file__)
    code = f"import os, sys; sys.path.insert(0, {folder!r}); import limits; limits.set_limits(5, 1024)"
    done = subprocess.run([sys.executable, "-c", f"{code}; os.fork() or os._exit(0)"], capture_output=True, text=True)
    assert "BlockingIOError" in done.stderr
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of Linux")
def test_the_grader_can_be_made_unreadable_for_a_time():
    prctl, get = ctypes.CDLL(None).prctl, 3
    before = prctl(get, 0, 0, 0, 0)
    with rights.private():
        assert prctl(get, 0, 0, 0, 0) == 0
    assert prctl(get, 0, 0, 0, 0) == before == 1
