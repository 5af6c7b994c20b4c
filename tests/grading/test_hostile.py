"""The sandbox against hostile files: none earns a point, reads, changes or stops anything, or leaves anything behind.

The files are listed by topic in hostile/; world.py there compares the machine before and after a grading. A dozen files
run as they are. The slow run grades all of them in containers of its own, so that a sandbox that does not hold harms
nothing but the container: as root and as an ordinary user, with namespaces (bubblewrap) and without them (Landlock).
"""

import os
import sys

import pytest
from helpers.hostile import EXERCISE, NOT_PASSED, attacks, bubblewrap, effects, grade_world, write_world

from numpy_transformer.classroom.sandbox import layers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a sandbox needs Linux")

ATTACKS = attacks()
SYSTEM = ("files", "processes", "network")      # topics that depend on the system more than on Python

# The attacks that were known when the sandbox was built, and a file for each of them.
KNOWN = {
    "builtins.any replaced": "replaced any", "os.open with dir_fd": "os open with dir_fd", "lib64": "through lib64",
    "readline.read_history_file": "readline reads", "readline.write_history_file": "readline writes",
    "a sub-interpreter": "interpreter that reads", "cells of the hook": "cells of the hook", "an own .so": "own library",
    "the installed package": "imports the installed package", "unicode_escape": "hidden in an escape with any",
    "a bare return": "hidden by a return", "sqlite3.connect": "sqlite onto another's file", ".pth": "pth in the venv",
    "killed by pidfd": "pidfd kills", "stopped by pidfd": "pidfd stops", "interrupted by pidfd": "pidfd interrupts",
    "a forged row": "forges the journal and kills the grader", "FIFO as the output": "fifo at the name of the output",
    "FIFOs in /tmp": "fifos in shared folders", "40 MB": "40 MB in shared folders", "priority": "priority of the grader",
    "affinity": "affinity of the grader", "a table of answers": "table of answers"}

# One of each kind, aimed only at files and processes of the test.
SAMPLE = ("replaced any", "through lib64", "readline writes", "interpreter that reads", "cells of the hook for writing",
          "own library", "pidfd kills", "priority of the grader", "forges the journal", "descriptors that were left open",
          "exit at once", "one message of JSON", "patched worker", "right after a failed attempt")

# Without a sandbox the same files succeed: what each of them then does.
REAL = {
    "reads the others": "reads the others: pass", "through lib64": "through lib64: pass", "users": "users: has seen: ",
    "interpreter that reads": "interpreter that reads: pass", "sees whether others are there": "sees whether others are there: has seen",
    "cells of the hook for writing": "changed: target", "plants a file among the others": "changed: class/anna/",
    "pth by sqlite": "changed: venv/lib", "priority of the grader": "changed: nice",
    "affinity of the grader": "changed: processors", "internet": "a connection to the teacher's machine",
    "System V shared memory": "changed: shm"}

# As root, for whom more is allowed: files that need rights.
ROOT = ("handle of a file", "device of the disk", "mounts something", "moves a mount", "pivots the root", "changes the root",
        "a program for root", "cannot be removed", "opened by a raw call", "opened by machine code", "removes the others",
        "compiled code of the package", "overwrites the package", "pth in the venv", "another user", "rights again",
        "kill of everybody", "kill of the grader", "stop of the grader", "pidfd kills", "traces the parent",
        "attaches to the grader", "reads the grader's memory", "memory of all", "priority of the user", "limits of the grader",
        "scheduler of the grader", "affinity of the grader", "namespaces of its own", "namespaces of the grader",
        "name of the machine", "system messages", "programs in the kernel", "counters", "keyring", "System V shared memory",
        "raw packets", "netlink", "next time", "forges the journal", "fifo at the name of the output", "watches files",
        "types into the terminal", "daemon", "clone into new namespaces", "moves memory", "the grader dies first")


def chosen(*names):
    return {name: ATTACKS[name] for name in names if name in ATTACKS}


def of_topics(*topics):
    return {name: attack for name, attack in ATTACKS.items() if attack.topic in topics}


def need_container():
    if bubblewrap() is None:
        pytest.skip("these files run only in a container, and there is no bubblewrap for one")


def need_layer(name):
    layer = next(layer for layer in layers() if layer.name == name)
    if not layer.works:
        pytest.skip(layer.sentence)


def test_the_lists_hold_every_known_attack():
    assert len(ATTACKS) >= 90 and set(KNOWN.values()) | set(SAMPLE) | set(ROOT) <= set(ATTACKS)
    passing = [name for name, attack in ATTACKS.items() if "pass" in attack.statuses]
    assert len(passing) < 10 and all(attack.statuses <= NOT_PASSED | {"pass"} for attack in ATTACKS.values())
    for attack in ATTACKS.values():
        assert attack.files[EXERCISE.file].strip(), attack.name


@pytest.mark.parametrize("layer", ["bubblewrap", "Landlock"])
def test_hostile_files_achieve_nothing(layer, tmp_path):
    need_layer(layer)
    write_world(tmp_path, chosen(*SAMPLE), exercises=[EXERCISE])
    assert effects(grade_world(tmp_path, layer=layer), chosen(*SAMPLE), exercises=[EXERCISE]) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind, layer, files", [
    ("user", "bubblewrap", ATTACKS), ("user container", "Landlock", of_topics(*SYSTEM, "protocol")),
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
