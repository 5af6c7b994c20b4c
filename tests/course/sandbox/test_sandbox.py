"""The sandbox: what a student's program sees and can do in each layer, and that one task cannot spoil the next."""

import ctypes
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import alive, descendants, wait_until

import numpy_transformer
from numpy_transformer.course.checker.diagnosis import AnswerKey
from numpy_transformer.course.checker.in_process import run_in_this_process
from numpy_transformer.course.checker.verdict import judge
from numpy_transformer.course.exercises import choose
from numpy_transformer.course.sandbox import (NO_LAYER, ProgramTask, Stopped, best_layer, bubblewrap, layers, run,
                                              run_files, runs, scratch, server)
from numpy_transformer.course.sandbox.isolation import FIND, complaint_of
from numpy_transformer.course.sandbox.visible_files import Visible, visible
from numpy_transformer.texts import render

EXERCISE = choose("01.2")
RIGHT = EXERCISE.edited()
KEY = AnswerKey(EXERCISE, 5)
posix = pytest.mark.skipif(os.name != "posix", reason="processes and folders of POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="a sandbox of Linux")


@pytest.fixture(params=["Landlock", *(pytest.param(name, marks=pytest.mark.slow) for name in FIND if name != "Landlock")])
def layer(request):
    """Each layer that works here."""
    found = next(layer for layer in layers() if layer.name == request.param)
    if not found.works:
        pytest.skip(found.sentence)
    return found


@pytest.fixture
def best():
    """The strongest layer that works here."""
    if best_layer() is None:
        pytest.skip("no sandbox works here")
    return best_layer()


@linux
def test_what_the_machine_offers_works():
    """Otherwise the tests of a layer that is broken would be skipped."""
    only = os.environ.get("NUMPY_TRANSFORMER_SANDBOX")
    works = {layer.name: layer.works for layer in layers()}
    create_ruleset, return_version = 444, 1
    if ctypes.CDLL(None).syscall(create_ruleset, None, ctypes.c_size_t(0), return_version) > 0:
        assert works["Landlock"] or only == "bubblewrap"
    for program in bubblewrap.programs():
        command = [program, "--unshare-all", "--ro-bind", "/", "/", "--", sys.executable, "-c", ""]
        if subprocess.run(command, capture_output=True).returncode == 0:
            assert works["bubblewrap"] or only == "Landlock"


def test_a_broken_link_in_the_standard_library_is_not_shown(tmp_path):
    """Debian's sitecustomize.py is a link to a file of another package."""
    (tmp_path / "json.py").touch()
    (tmp_path / "sitecustomize.py").symlink_to(tmp_path / "missing.py")
    assert Visible("python", (str(tmp_path),), (), {}).entries() == [str(tmp_path / "json.py")]


def results(layer, *sources, others=None, **limits):
    """Runs these sources as files for the exercise, one task each in one sandbox. Returns their Runs."""
    names = [f"ex01_2_{i}.py" for i in range(len(sources))]
    files = {name: textwrap.dedent(source).encode() for name, source in zip(names, sources)}
    tasks = [ProgramTask(EXERCISE, KEY.cases, name) for name in names]
    return list(run_files({**files, **(others or {})}, tasks, layer, **limits))


def printed(layer, source, **limits):
    """What a source prints when it is loaded, and the error that it raises."""
    result, = results(layer, source, **limits)
    return result.printed, result.report.get("error", "")


def statuses(layer, *sources, **limits):
    return [judge(KEY, result).status for result in results(layer, *sources, **limits)]


def test_right_and_wrong_files_of_a_student_are_run_in_order(best):
    wrong, unfinished = "def softmax_backward(p, dp):\n    return dp\n", EXERCISE.skeleton()
    assert statuses(best, RIGHT, wrong, unfinished, "x = (", RIGHT) == ["pass", "fail", "todo", "error", "pass"]


OVERWRITING = """
import numpy as np

buffers = {}

def softmax_backward(p, dp):
    dz = buffers.setdefault((p.shape, p.dtype), np.empty_like(p))
    dz[...] = p * (dp - (dp * p).sum(-1, keepdims=True))
    return dz
"""


def test_an_array_that_a_later_call_overwrites_is_found_in_the_sandbox_and_in_this_process(best):
    given = {"np": np}
    exec(OVERWRITING, given)
    sandboxed, = run_files({"ex.py": OVERWRITING.encode()}, [ProgramTask(EXERCISE, KEY.cases, "ex.py")], best)
    for result in (sandboxed, run_in_this_process(given["softmax_backward"], EXERCISE, KEY.cases, None)):
        verdict = judge(KEY, result)
        assert (verdict.stage, verdict.right) == ("repeated", True)
        assert "a later call changed the array dz that an earlier call had returned" in render(verdict.note)


@pytest.mark.slow
def test_a_sandbox_that_has_ended_is_replaced(best, monkeypatch):
    """The second task finds no sandbox any more, and the third gets a new one."""
    asked, ask = [], server.Server.ask

    def ask_or_die(self, message, seconds):
        asked.append(self)
        if len(asked) == 3:                     # a set-up, the first task, the second task
            self.process.kill()
        return ask(self, message, seconds)

    monkeypatch.setattr(server.Server, "ask", ask_or_die)
    assert statuses(best, RIGHT, RIGHT, RIGHT) == ["pass", "error", "pass"]
    assert len(set(map(id, asked))) == 2


def test_files_of_a_student_import_each_other(best):
    source = "from tools.mine import softmax_backward\nimport json\nassert json.dumps([]) == '[]'\n"
    others = {"tools/mine.py": b"from right import *", "right.py": RIGHT.encode(), "json.py": b"1 / 0", "../up.py": b""}
    result, = results(best, source, others=others)
    assert judge(KEY, result).status == "pass"


VISIBLE = """
    import os
    for folder, folders, names in os.walk("/"):
        for name in names:
            print(os.path.join(folder, name))
    """


@linux
def test_nothing_else_is_visible(layer, monkeypatch):
    """All files from the root down: those that Python and NumPy need, and the student's own."""
    monkeypatch.setattr(server, "PRINTED", 1 << 20)
    monkeypatch.setattr(runs, "PRINTED", 1 << 20)
    seen = printed(layer, VISIBLE)[0].splitlines()
    if layer.name == "Landlock":
        assert seen == []                                   # no folder above the allowed ones can be listed
        return
    files = visible()
    folders = [f"{path}/" for path in (*files.standard, bubblewrap.PACKAGES, bubblewrap.PLACE, bubblewrap.SCRATCH)]
    single = {files.python, *files.libraries, *files.standard}
    assert len(seen) > 1000
    assert {path for path in seen if path not in single and not path.startswith(tuple(folders))} == set()
    assert not [path for path in seen if path.count("site-packages") or "numpy_transformer" in path]


@linux
def test_files_of_the_host_cannot_be_read(layer, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADER_MARK", "secret")
    (tmp_path / "other.py").write_text("secret", encoding="utf-8")
    package, packages = Path(numpy_transformer.__file__).parent, Path(np.__file__).parents[1]
    paths = [tmp_path / "other.py", tmp_path, package / "course" / "checker" / "verdict.py", "/etc/passwd", "/proc/self/environ",
             "/proc/self/maps", f"/proc/{os.getpid()}/environ", "/dev/shm", "/tmp", "/sys/kernel", packages,
             next(packages.glob("pytest*")), Path(visible().standard[-1]) / "site-packages"]
    source = f"""
        import os
        assert "GRADER_MARK" not in os.environ
        for path in {list(map(str, paths))!r}:
            for read in (os.listdir, lambda path: os.open(path, os.O_RDONLY), lambda path: open(path, "rb").read()):
                try:
                    print(path, read(path))
                except OSError:
                    pass
        """
    hidden = f"{paths[-1]} []"                              # in namespaces: an empty folder lies over it
    lines = [line for line in printed(layer, source)[0].splitlines() if line != hidden]
    assert [line for line in lines if not line.startswith(f"{paths[-1]} ") or layer.name != "bubblewrap"] == []


@linux
def test_only_the_working_folder_can_be_written(layer, tmp_path):
    places = [tmp_path / "new", "/tmp/new", "/new", "/dev/shm/new", Path(visible().standard[-1]) / "new.py",
              Path(np.__file__).parent / "new.py", bubblewrap.PACKAGES + "/numpy/new.py", "../new", "../files/new.py"]
    source = f"""
        import os
        open("own", "w").write("x")
        os.mkdir("folder")
        assert os.listdir("folder") == [] and open("own").read() == "x"
        for path in {list(map(str, places))!r}:
            for write in (lambda path: open(path, "w"), os.mkdir, lambda path: os.rename("own", path)):
                try:
                    print(path, write(path))
                except OSError:
                    pass
        """
    assert printed(layer, source) == ("", "")
    assert not (tmp_path / "new").exists()


REFUSED = """
    import ctypes, os, signal, socket, subprocess, threading
    libc = ctypes.CDLL(None, use_errno=True)

    def system_call(*numbers):
        if libc.syscall(*numbers) < 0:
            raise OSError(ctypes.get_errno(), "refused")

    attempts = dict(
        fork=os.fork, kill=lambda: os.kill(os.getppid(), 0), all=lambda: os.kill(-1, 0),
        priority=lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 5), chmod=lambda: os.chmod(".", 0),
        affinity=lambda: os.sched_setaffinity(os.getppid(), {0}), fifo=lambda: os.mkfifo("fifo"),
        link=lambda: os.symlink("/etc", "link"), shell=lambda: os.execv("/bin/sh", ["sh"]),
        thread=threading.Thread(target=print).start, socket=socket.socket, pair=socket.socketpair,
        memory=lambda: os.memfd_create("x"), times=lambda: os.utime("."),
        unshare=lambda: system_call(UNSHARE, 0x10000000),
        x32=lambda: system_call(0x40000000 + 39), ptrace=lambda: libc.ptrace(0, 0, 0, 0) and system_call(-1))
    for name, attempt in attempts.items():
        try:
            attempt()
            print(name)
        except (OSError, RuntimeError):
            pass
    os.kill(os.getpid(), 0)
    """


@linux
def test_other_processes_and_the_network_are_out_of_reach(layer):
    number = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
    assert printed(layer, REFUSED.replace("UNSHARE", str(number))) == ("", "")


@linux
def test_the_pipes_of_the_supervisor_are_out_of_reach(layer):
    """/proc leads to the pipes of other processes, and Landlock does not restrict pipes."""
    source = """
        import os
        for pid in (os.getppid(), PARENT):
            for number in range(9):
                for flag in (os.O_RDONLY, os.O_WRONLY):
                    try:
                        print(os.open(f"/proc/{pid}/fd/{number}", flag | os.O_NONBLOCK))
                    except OSError:
                        pass
        """
    assert printed(layer, source.replace("PARENT", str(os.getpid()))) == ("", "")


FULL = """
for i in range(20):
    open(str(i), "w").truncate(4 << 20)                     # 80 MB, in holes
while True:
    pass
"""


NAMELESS = """
import os
attempts = (lambda: os.unlink("a"), lambda: os.rename("b", "a"), lambda: os.replace("b", "a"), lambda: os.remove("a"),
            lambda: os.open(".", os.O_RDWR | os.O_TMPFILE, 0o600))
for name in "ab":
    open(name, "w").close()
for attempt in attempts:
    try:
        print(attempt())
    except PermissionError:
        pass
"""
CLOSED = """
import os
for name in ("closed", "deep"):
    os.mkdir(name, 0o300)
    os.chdir(name)
    for i in range(0 if name == "closed" else 30):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    open("a", "w").close()
    if name == "closed":
        os.chdir("..")
while True:
    pass
"""


@pytest.mark.slow
@linux
def test_a_file_keeps_its_name_so_that_it_is_counted(layer):
    assert printed(layer, NAMELESS) == ("", "")
    assert [result.ended for result in results(layer, CLOSED)] == ["killed"]


def test_a_task_cannot_spoil_the_next(layer):
    spoilers = ["import os\nos.makedirs('a/b/c')\nopen('numpy.py', 'w').write('1 / 0')\n" + RIGHT,
                "import os\nos.closerange(0, 99)\n", "import ctypes\nctypes.string_at(0)\n",
                "import builtins, numpy\nbuiltins.len = numpy.asarray = None\n", "import os\nos._exit(3)\n",
                "import os\nos.unlink('../files/ex01_2_6.py')\n"]
    assert statuses(layer, *spoilers, RIGHT)[-1] == "pass"
    assert [result.ended for result in results(layer, "import os\nos.mkdir('a')\n" + FULL, RIGHT)] == ["killed", ""]


@pytest.mark.slow
def test_a_result_says_how_a_task_ended(best):
    sources = ["import numpy as np\nnp.ones((1 << 14, 1 << 14))", "while True: print('x' * 10_000)",
               FULL,
               "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"]
    ended = results(best, *sources)
    assert [result.ended for result in ended] == ["memory", "killed", "killed", "killed"]
    assert [result.results[0].report["stopped"] for result in ended[1:3]] == ["flood", "full"]
    late, = results(best, "while True: pass", seconds=0.5)
    assert late.ended == "timeout" and late.seconds == 0.5


def test_printed_text_is_kept_up_to_a_limit(best):
    text, _ = printed(best, "import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('x' * 9000)")
    assert text.startswith("out\nerr\nxxx") and len(text) == server.PRINTED


def test_stray_imports_are_allowed_but_not_their_use(best):
    stray = "import matplotlib.pyplot as plt\nfrom pandas import DataFrame\n"
    assert statuses(best, stray + RIGHT) == ["pass"]
    assert "matplotlib.pyplot.plot is not available" in printed(best, stray + "plt.plot([1])")[1]
    names = "torch", "numpy_transformer", "nothing"
    for name, result in zip(names, results(best, *(f"import {name}" for name in names))):
        assert f"{name} cannot be imported in an exercise; use only NumPy" in result.report["error"]


@pytest.mark.slow
def test_a_stopped_run_ends_at_once_and_leaves_no_process(layer):
    asked = []

    def stop():
        asked.append(time.monotonic())
        return len(asked) > 9

    before = set(children())
    with pytest.raises(Stopped):
        results(layer, "import time\ntime.sleep(60)", stop=stop, seconds=60)
    unfinished = run_files({"a.py": RIGHT.encode()}, [ProgramTask(EXERCISE, KEY.cases, "a.py")] * 2, layer)
    assert next(unfinished).ended == ""
    assert set(children()) > before
    unfinished.close()
    assert set(children()) == before


def children():
    """The ids of this process's children (Linux)."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


GRADER = """
import sys
from numpy_transformer.course.exercises import choose
from numpy_transformer.course.sandbox import ProgramTask, layers, run_files
exercise = choose("01.2")
layer = next(layer for layer in layers() if layer.name == sys.argv[1])
source = b"import time\\nprint('x')\\ntime.sleep(50)"
print("ready", flush=True)
list(run_files({"a.py": source}, [ProgramTask(exercise, exercise.cases(0), "a.py")], layer, seconds=60))
"""


@pytest.mark.slow
def test_a_killed_grader_leaves_no_process(layer, tmp_path):
    package = Path(numpy_transformer.__file__).parents[1]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(package)}
    grader = subprocess.Popen([sys.executable, "-c", GRADER, layer.name], env=environment, stdout=subprocess.PIPE)
    grader.stdout.readline()
    family = []
    wait_until(lambda: family.extend(set(descendants(grader.pid)) - set(family)) or len(family) >= 2)
    time.sleep(0.5)                                         # until the task sleeps, too
    family.extend(descendants(grader.pid))
    grader.kill()
    grader.wait()
    wait_until(lambda: not any(map(alive, family)))


def test_layers_say_what_works_and_what_is_missing(monkeypatch):
    found = layers()
    assert [layer.name for layer in found] == ["bubblewrap", "Landlock", "none"] and not found[-1].works
    assert all(layer.sentence for layer in found) and found[-1] is NO_LAYER
    assert best_layer() == next((layer for layer in found if layer.works), None)
    monkeypatch.setattr(bubblewrap, "programs", list)
    if sys.platform == "linux":
        assert "is not installed" in FIND["bubblewrap"]().sentence


@linux
def test_a_forbidden_bubblewrap_is_told_from_a_missing_one(monkeypatch, tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert bubblewrap.programs()[0] == str(program)
    monkeypatch.setattr(bubblewrap, "programs", lambda: [str(program)])
    layer = FIND["bubblewrap"]()
    assert not layer.works and "No permissions to create new namespace" in layer.sentence
    program.chmod(0o777)                                    # anybody may have written it
    assert not bubblewrap.trusted(program)


@pytest.mark.slow
def test_a_layer_that_keeps_nothing_in_does_not_work(monkeypatch, best):
    """As if the filter could not be installed, or let something through."""
    monkeypatch.setattr(sys.modules[complaint_of.__module__], "PROBE", b"def probe(path):\n    return 3\n")
    assert "was not kept from" in complaint_of(best)
    monkeypatch.setattr(sys.modules[complaint_of.__module__], "PROBE", b"1 / 0")
    assert complaint_of(best)


@pytest.mark.slow
def test_without_a_sandbox_a_file_runs_with_limits_alone():
    result = run(b"print('x')\n" + RIGHT.encode(), EXERCISE, KEY.cases)
    assert judge(KEY, result).status == "pass" and result.printed == "x\n"
    assert statuses(NO_LAYER, "while True: pass", seconds=0.5) == ["timeout"]


@posix
def test_folders_of_killed_graders_are_swept_away(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    old, used, foreign = (tmp_path / name for name in ("exercise-old", "exercise-used", "other-old"))
    for folder in (old, used, foreign):
        (folder / "work").mkdir(parents=True)
        os.utime(folder, (0, 0))
    (tmp_path / "exercise-young").mkdir()                   # of a grader that was killed a moment ago
    (tmp_path / "new-exercise-young").mkdir()               # of one that is just starting
    (tmp_path / "new-exercise-old").mkdir()
    os.utime(tmp_path / "new-exercise-old", (0, 0))
    (tmp_path / "exercise-link").symlink_to(foreign)
    lock = scratch.locked(used)
    scratch.sweep.__wrapped__()                             # as in a new process
    os.close(lock)
    assert {path.name for path in tmp_path.iterdir()} == {"exercise-used", "other-old", "exercise-link", "new-exercise-young"}
    assert (foreign / "work").exists()


@posix
def test_a_folder_is_removed_in_whatever_state_it_was_left(tmp_path):
    folder = tmp_path / "left"
    deep = folder
    for _ in range(400):
        deep = deep / "a"
    for path in [*reversed(deep.parents), deep][-401:]:
        os.mkdir(path)
    os.symlink(tmp_path, folder / "link")
    (tmp_path / "stays").write_text("x", encoding="utf-8")
    os.chmod(folder / "a" / "a", 0)
    os.chmod(folder, 0o500)
    scratch.remove(folder)
    assert not folder.exists() and (tmp_path / "stays").exists()


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


@pytest.mark.slow
@posix
def test_killing_a_child_kills_its_grandchildren(tmp_path):
    """Also those that are started by others while the first are killed; each would end by itself in five seconds."""
    path = tmp_path / "pids"

    def pids():
        return [int(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    for own in (5, 0):                                      # the child itself is alive, or has ended
        child = subprocess.Popen([sys.executable, "-c", FAMILY.format(own)], cwd=tmp_path, start_new_session=True)
        wait_until(lambda: len(pids()) == 8, 5)
        runs.kill(child)
        wait_until(lambda: not any(map(alive, pids())), 2)  # somebody has to collect the dead
        path.unlink()
