"""The sandbox against hostile files: none earns a point, reads, changes or stops anything, or leaves anything behind.

The files are listed by topic in hostile/; world.py there compares the machine before and after a grading. A dozen files
run as they are. The slow run grades all of them in containers of its own, so that a sandbox that does not hold harms
nothing but the container: as root and as an ordinary user, with namespaces (bubblewrap) and without them (Landlock).
"""

import os
import re
import subprocess
import sys

import pytest
from helpers import ROOT as CHECKOUT
from helpers.hostile import EXERCISE, NOT_PASSED, SEEN, attacks, bubblewrap, effects, grade_world, write_world

from numpy_transformer.course.sandbox import ProgramTask, layers, run_files
from numpy_transformer.grading.grader import Judge

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a sandbox needs Linux")

ATTACKS = attacks()

# The attacks that were known when the sandbox was built, and a file for each of them.
KNOWN = {
    "builtins.any replaced": "replaced any", "os.open with dir_fd": "os open with dir_fd", "lib64": "through lib64",
    "readline.read_history_file": "readline reads", "readline.write_history_file": "readline writes",
    "a sub-interpreter": "interpreter that reads", "cells of the hook": "cells of the hook",
    "an own .so": "own library", "the installed package": "imports the installed package",
    "unicode_escape": "hidden in an escape with any", "a bare return": "hidden by a return",
    "sqlite3.connect": "sqlite onto another's file", ".pth": "pth in the venv",
    "killed by pidfd": "pidfd kills", "stopped by pidfd": "pidfd stops", "interrupted by pidfd": "pidfd interrupts",
    "a forged row": "forges the journal and kills the grader", "40 MB": "40 MB in shared folders",
    "a FIFO as the output": "fifo at the name of the output", "FIFOs in /tmp": "fifos in shared folders",
    "priority": "priority of the grader", "affinity": "affinity of the grader",
    "a table of answers": "table of answers"}

# One of each kind, aimed only at files and processes of the test.
SAMPLE = (
    "replaced any", "through lib64", "readline writes", "interpreter that reads", "cells of the hook for writing",
    "own library", "pidfd kills", "priority of the grader", "forges the journal", "descriptors that were left open",
    "exit at once", "one message of JSON", "patched worker", "right after a failed attempt")

# Without a sandbox the same files succeed: what each of them then does.
REAL = {
    "reads the others": "reads the others: pass", "through lib64": "through lib64: pass", "users": "users: has seen: ",
    "replaced any": "replaced any: pass",
    "sees whether others are there": "sees whether others are there: has seen: ",
    "writes elsewhere": "changed: target", "plants a file among the others": "changed: class/anna/",
    "pth by sqlite": "changed: venv/lib", "priority of the grader": "changed: nice",
    "affinity of the grader": "changed: processors", "internet": "a connection to the teacher's machine",
    "System V shared memory": "changed: shm"}

# For root, to whom more is allowed.
ROOT = (
    "handle of a file", "device of the disk", "mounts something", "moves a mount", "pivots the root",
    "changes the root", "a program for root", "cannot be removed", "opened by a raw call", "opened by machine code",
    "removes the others", "compiled code of the package", "overwrites the package", "pth in the venv",
    "another user", "rights again", "kill of everybody", "kill of the grader", "stop of the grader", "pidfd kills",
    "traces the parent", "memory of all", "attaches to the grader", "reads the grader's memory",
    "priority of the user", "limits of the grader", "counters", "scheduler of the grader", "affinity of the grader",
    "namespaces of its own", "namespaces of the grader", "keyring", "name of the machine", "system messages",
    "programs in the kernel", "System V shared memory", "raw packets", "netlink", "next time", "forges the journal",
    "fifo at the name of the output", "watches files", "types into the terminal", "daemon",
    "clone into new namespaces", "moves memory", "the grader dies first", "writes into its parent's pipes")

# Landlock hides what is in files and folders, but not whether a path exists.
NOT_LANDLOCK = ("sees whether others are there",)

def chosen(*names):
    return {name: ATTACKS[name] for name in names if name in ATTACKS}


def for_landlock():
    """What depends on the system more than on Python."""
    topics = ("files", "processes", "network", "protocol")
    return {name: attack for name, attack in ATTACKS.items() if attack.topic in topics and name not in NOT_LANDLOCK}


def need_container():
    if bubblewrap() is None:
        pytest.skip("these files run only in a container, and there is no bubblewrap for one")


def need_layer(name):
    layer = next(layer for layer in layers() if layer.name == name)
    if not layer.works:
        pytest.skip(layer.sentence)
    return layer


def test_the_lists_hold_every_known_attack():
    assert len(ATTACKS) >= 90 and set(KNOWN.values()) | set(SAMPLE) | set(ROOT) <= set(ATTACKS)
    passing = [name for name, attack in ATTACKS.items() if "pass" in attack.statuses]
    assert len(passing) < 10 and all(attack.statuses <= NOT_PASSED | {"pass"} for attack in ATTACKS.values())
    for attack in ATTACKS.values():
        assert attack.files[EXERCISE.file].strip(), attack.name


def test_the_parts_of_the_package_that_files_aim_at_exist():
    """An attack on a file that has moved would achieve nothing, whatever the sandbox does."""
    aims = set()
    for attack in ATTACKS.values():
        source = b"".join(attack.files.values()).decode("utf-8", "replace")
        aims |= set(re.findall(r"\{PACKAGE\}.*?'/((?:\w+/)*\w+\.py)'", source))
        aims |= {f"{module.replace('.', '/')}.py" for module in re.findall(r"\bnumpy_transformer\.([\w.]+) import", source)}
    assert "course/exercises/softmax.py" in aims
    for aim in aims:
        path = CHECKOUT / "numpy_transformer" / aim
        assert path.is_file() or path.with_suffix("").is_dir(), aim


@pytest.fixture
def other():
    """A process of the teacher, in place of the grader."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("name", [pytest.param("bubblewrap", marks=pytest.mark.slow), "Landlock"])
def test_hostile_files_achieve_nothing(name, other, tmp_path):
    layer = need_layer(name)
    write_world(tmp_path, chosen(*SAMPLE))
    paths = [next(tmp_path.glob(f"*/{each}/{EXERCISE.file}")) for each in SAMPLE]
    files = {f"ex{i}.py": path.read_bytes() for i, path in enumerate(paths)}
    files = {name: content.replace(b"{GRADER}", b"%d" % other.pid) for name, content in files.items()}
    judge, before = Judge(EXERCISE, 5), (tree(tmp_path), state_of(other.pid))
    tasks = [ProgramTask(EXERCISE, judge.answer_key.cases, file) for file in files]
    for each, result in zip(SAMPLE, run_files(files, tasks, layer, seconds=5), strict=True):
        assert judge.judge(result)[0].status in ATTACKS[each].statuses, each
        assert SEEN not in result.printed, each
    assert other.poll() is None and (tree(tmp_path), state_of(other.pid)) == before


def tree(folder):
    """{path: content} of a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def state_of(pid):
    return os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid), os.sched_getscheduler(pid)


@pytest.mark.slow
@pytest.mark.parametrize("kind, layer, files", [
    ("user", "bubblewrap", ATTACKS), ("user container", "Landlock", for_landlock()),
    ("root", "bubblewrap", chosen(*ROOT)), ("root container", "Landlock", chosen(*ROOT))],
    ids=["user, bubblewrap", "user, Landlock", "root, bubblewrap", "root, Landlock"])
def test_hostile_files_achieve_nothing_in_a_container(kind, layer, files, tmp_path):
    need_container()
    need_layer(layer)
    write_world(tmp_path, files)
    outcome = grade_world(tmp_path, kind)
    assert effects(outcome, files) == []
    assert f"sandbox: {layer}" in outcome.report["text"]


@pytest.mark.slow
def test_where_nothing_protects_the_teacher_grading_is_refused(tmp_path):
    need_container()
    write_world(tmp_path, chosen("syntax"))
    outcome = grade_world(tmp_path, "user nothing")
    assert outcome.report["code"] == 2 and not outcome.rows
    assert "--trust-students" in outcome.report["text"] and "Landlock" in outcome.report["text"]
    assert "Traceback" not in outcome.report["text"] and not outcome.report["changed"]


@pytest.mark.slow
def test_without_a_sandbox_the_same_files_succeed(tmp_path):
    """So the tests above can fail."""
    need_container()
    write_world(tmp_path, chosen(*REAL), exercises=[EXERCISE])
    found = effects(grade_world(tmp_path, "user", "--trust-students"), chosen(*REAL), exercises=[EXERCISE])
    for name, effect in REAL.items():
        assert any(line.startswith(effect) for line in found), (name, effect, found)
