"""Grades a hostile class and reports what has changed in the world: `python world.py FOLDER KIND [OPTION...]`.

test_hostile.py runs this in a container of its own where it can, so that everything found here was done by the grading.
The folder holds class/, venv/ and options.json; what is found goes to FOLDER/report.json.
"""

import contextlib
import ctypes
import hashlib
import io
import json
import os
import platform
import signal
import socket
import stat
import struct
import sys
import time

USER = 1000                                     # an ordinary user in the container
SECRET = 9                                      # a descriptor that the teacher's shell has left open


def contained():
    return os.environ.get("CONTAINED") == "1"


def forbid(*, landlock):
    """Refuses new namespaces and mounts to this process and its children, as the containers of Docker do.

    With `landlock` true, the kernel seems to have no Landlock either. The filter is classic BPF; see seccomp(2).
    """
    arm = platform.machine() == "aarch64"
    unshare, clone, mount, setns = (97, 220, 40, 268) if arm else (272, 56, 165, 308)
    refuse, missing, allow = (0x00050000 | 1, 0x00050000 | 38, 0x7fff0000)      # EPERM, ENOSYS, allowed
    load, equal, bits, end = (0x20, 0x15, 0x45, 0x06)
    code = [(load, 0, 0, 0)]                    # the number of the call
    for number in (unshare, mount, setns):
        code += [(equal, 0, 1, number), (end, 0, 0, refuse)]
    for number in (435, *(444, 445, 446) * landlock):       # clone3, whose flags no filter can read; Landlock
        code += [(equal, 0, 1, number), (end, 0, 0, missing)]
    code += [(equal, 0, 3, clone), (load, 0, 0, 16), (bits, 0, 1, 0x10000000), (end, 0, 0, refuse), (end, 0, 0, allow)]
    program = b"".join(struct.pack("=HBBI", *line) for line in code)
    lines = ctypes.create_string_buffer(program)
    filter_ = struct.pack("HxxxxxxP", len(code), ctypes.addressof(lines))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0      # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, filter_, 0, 0) == 0, os.strerror(ctypes.get_errno())       # PR_SET_SECCOMP


def enter(base, kind, *options):
    """Becomes the user, and gives up the rights, that `kind` asks for. Then starts this file again as the grader."""
    if kind.startswith("user") and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    if kind.endswith(("container", "nothing")):
        forbid(landlock=kind.endswith("nothing"))
    os.dup2(os.open(os.path.join(base, "class", "anna", "notes.txt"), os.O_RDONLY), SECRET)     # is inherited
    for _ in range(300 * contained()):          # so that the grader's number belongs to no process in a sandbox
        os.waitpid(os.fork() or os._exit(0), 0)
    grader = os.fork()
    if grader:
        _, status = os.waitpid(grader, 0)
        os._exit(min(255, abs(os.waitstatus_to_exitcode(status))))
    os.execv(sys.executable, [sys.executable, "-B", "-X", "utf8", __file__, base, "grade", *options])


def files(*folders):
    """{path: its mode, owner, size and contents} for everything below these folders on the same file system."""
    found = {}
    for folder in folders:
        device = os.lstat(folder).st_dev if os.path.exists(folder) else None
        for path, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if os.lstat(os.path.join(path, name)).st_dev == device]
            for name in (*inner, *names):
                whole = os.path.join(path, name)
                status = os.lstat(whole)
                told = [stat.filemode(status.st_mode), status.st_uid]
                if stat.S_ISREG(status.st_mode):
                    with open(whole, "rb") as file:
                        told += [status.st_nlink, status.st_size, hashlib.sha256(file.read(1 << 20)).hexdigest()[:16]]
                found[whole] = told
    return found


def processes():
    """{id: name} of the processes that this process can see and that are not among its own ancestors."""
    seen, parents = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
            head, _, tail = file.read().rpartition(")")
            seen[int(name)], parents[int(name)] = head.partition("(")[2], int(tail.split()[1])
    own, at = set(), os.getpid()
    while at:
        own.add(at)
        at = parents.get(at, 0)
    return {pid: name for pid, name in seen.items() if pid not in own}


def children(before):
    """The processes that the grading has left: all new ones in a container, else this process's children."""
    for _ in range(40):                         # those that are just ending may take a moment
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = {pid: name for pid, name in processes().items()
                if contained() and pid not in before or parent(pid) == os.getpid()}
        if not left:
            break
        time.sleep(0.05)
    return left


def parent(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def state():
    """What others can change in this process and in its machine."""
    import resource
    told = {"nice": os.getpriority(os.PRIO_PROCESS, 0), "processors": sorted(os.sched_getaffinity(0)),
            "scheduler": os.sched_getscheduler(0), "folder": os.getcwd(), "host": os.uname().nodename,
            "input and output": ctypes.CDLL(None).syscall(31 if platform.machine() == "aarch64" else 252, 1, 0),
            "limits": [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if "RLIMIT_" in name],
            "mask": os.umask(0o77), "handler": str(signal.getsignal(signal.SIGINT))}
    os.umask(told["mask"])
    for path in ("oom_score_adj", "timerslack_ns", "mounts"):
        with contextlib.suppress(OSError), open(f"/proc/self/{path}") as file:
            told[path] = file.read()
    for name in ("shm", "msg", "sem"):
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{name}") as file:
            told[name] = len(file.readlines()) if contained() else 0
    with contextlib.suppress(OSError), open("/proc/keys") as file:
        told["keys"] = [line for line in file if "hostile" in line]
    return told


def listen():
    """Sockets that nobody has any business with: an internet port and an abstract name."""
    sockets = [socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)]
    sockets[0].bind(("127.0.0.1", 0))
    sockets[1].bind(f"\0hostile-{os.getpid()}")
    for each in sockets:
        each.listen()
        each.setblocking(False)
    return sockets


def callers(sockets):
    count = 0
    for each in sockets:
        with contextlib.suppress(BlockingIOError):
            each.accept()
            count += 1
    return count


def fill_in(folder, values):
    """Replaces what is known only now, such as the grader's process, in the students' files."""
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                text = file.read()
            new = text
            for key, value in values.items():
                new = new.replace(key, str(value).encode())
            if new != text:
                with open(os.path.join(path, name), "wb") as file:
                    file.write(new)


def run_alone(folder):
    """Runs files that need no class around them, 30 in one sandbox, which is quicker. Returns {student: row}."""
    from concurrent.futures import ThreadPoolExecutor

    from numpy_transformer.course.exercises import choose
    from numpy_transformer.course.sandbox import ProgramTask, best_layer, run_files
    from numpy_transformer.grading.grader import Judge
    from numpy_transformer.texts import render
    judge, students = Judge(choose("01.2"), 5), sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def run(part):
        files = {}
        for i, student in enumerate(part):
            with open(os.path.join(folder, student, judge.exercise.file), "rb") as file:
                files[f"file{i}.py"] = file.read()
        tasks = [ProgramTask(judge.exercise, judge.answer_key.cases, file) for file in files]
        rows = {}
        for student, result in zip(part, run_files(files, tasks, best_layer(), seconds=2)):
            verdict, _ = judge.judge(result)
            rows[student] = {"status": verdict.status, "points": verdict.points(judge.exercise.points), "note":
                             " ".join("".join(c if c.isprintable() else " " for c in render(verdict.note))[:600].split()),
                             "printed": result.printed}
        return rows

    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(run, [students[i:i + 30] for i in range(0, len(students), 30)])
        return {student: row for part in parts for student, row in part.items()}


def grade(base, options):
    with open(os.path.join(base, "options.json")) as file:
        options = [*json.load(file), *options]
    sockets = listen()
    for folder in ("class", "alone"):
        fill_in(os.path.join(base, folder), {b"{GRADER}": os.getpid(), b"{PORT}": sockets[0].getsockname()[1]})
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)     # PR_SET_CHILD_SUBREAPER: orphans become children of this process
    from numpy_transformer import views
    from numpy_transformer.cli import main
    views.write_figure = lambda figure, path: path     # no picture, which takes a second
    views.class_report = lambda *given: None
    folders = [base, *(["/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"] if contained() else [])]
    before = files(*folders), processes(), state()
    text, alone = io.StringIO(), {}
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            code = main(options)
            if code == 0 and "--trust-students" not in options:
                alone = run_alone(os.path.join(base, "alone"))
        except SystemExit as stop:
            code = stop.code
    left, now, found = children(before[1]), state(), files(*folders)
    changed = sorted(path for path in found.keys() | before[0].keys() if found.get(path) != before[0].get(path))
    allowed = os.path.join(base, "out"), os.path.join(base, "home", ".local")       # the outputs, and the journal's key
    report = {"code": code, "text": text.getvalue(), "left": left, "callers": callers(sockets),
              "alone": alone,
              "changed": [path for path in changed if not path.startswith(allowed)],
              "state": {key: [before[2].get(key), value] for key, value in now.items() if value != before[2].get(key)}}
    with open(os.path.join(base, "out", "report.json"), "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    if sys.argv[2] == "grade":
        grade(sys.argv[1], sys.argv[3:])
    else:
        enter(*sys.argv[1:])
