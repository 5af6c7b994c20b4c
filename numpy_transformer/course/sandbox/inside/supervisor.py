"""Serves one student in a sandbox: `python -I -S -B -X utf8 supervisor.py`. Runs each task in a child process.

The parent sends the set-up, the student's files and then one task at a time over stdin, and gets one reply for each
task over stdout. The children have neither of the two pipes. They write their results to a pipe of their own.
"""

import contextlib
import gc
import os
import select
import sys
import time
import traceback

INSIDE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, INSIDE)
import case_arguments  # noqa: E402, F401
import landlock  # noqa: E402
import limits  # noqa: E402
import reruns  # noqa: E402, F401
import seccomp  # noqa: E402
import worker  # noqa: E402

sys.path.remove(INSIDE)


def serve_student():
    """Serves one student: first the set-up, then the files, then a task at a time, each in a child of its own."""
    setup = worker.read_request()[0]
    worker.import_numpy(setup["numpy"])
    sys.meta_path.append(limits.LastFinder())
    work, files = os.path.join(setup["scratch"], "work"), os.path.join(setup["scratch"], "files")
    for folder in (work, files):
        os.mkdir(folder, 0o700)
    os.chdir(work)
    if setup["landlock"]:
        landlock.restrict(setup["landlock"], setup["scratch"])
        landlock.drop_capabilities()
        seccomp.die_with_parent(setup["parent"])
    seccomp.hide()
    gc.collect()
    gc.freeze()                                 # or the children's collections would copy all that is shared
    worker.write_all(1, worker.REPLY.pack(worker.READY, 0, 0, 0.0, 0, 0))
    names, _, contents = worker.read_request()
    write_files(files, names, contents)
    os.chmod(setup["scratch"], 0o500)
    if b"random" in contents:                   # as worker.seed_global_generators: once, rather than in each child
        import numpy.random  # noqa: F401
    sys.path.append(files)
    while request := worker.read_request():
        request[0]["folder"] = files
        worker.write_all(1, supervise(request, work))
    os._exit(0)


def write_files(folder, names, contents):
    """Writes the student's files, {name: length}, read-only into this folder; "tools/a.py" into a folder below it."""
    start = 0
    for name, length in names.items():
        path = os.path.join(folder, *name.split("/"))
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
            file.write(contents[start:start + length])
        start += length
    for path, _, _ in os.walk(folder, topdown=False):
        os.chmod(path, 0o500)


def supervise(request, work):
    """Runs a task in a child. Returns the reply to the parent."""
    (results, results_in), (printed, printed_in), (nothing, nothing_in) = os.pipe(), os.pipe(), os.pipe()
    os.close(nothing_in)
    request[0]["server"] = os.getpid()
    child = os.fork()
    if not child:
        become_child(request, nothing, printed_in, results_in)
    for descriptor in (nothing, printed_in, results_in):
        os.close(descriptor)
    texts = {results: bytearray(), printed: bytearray()}
    ended = collect(texts, {results: worker.MOST_SENT, printed: worker.MOST_PRINTED}, request[0]["seconds"], work)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, 9)
    _, status, usage = os.wait4(child, 0)
    for descriptor in texts:
        os.close(descriptor)
    if not empty(work):
        ended = ended or "spoilt"
    shown = texts[printed][:request[0]["printed"]]
    return worker.REPLY.pack(worker.READY, os.waitstatus_to_exitcode(status), worker.ENDED.index(ended),
                             usage.ru_utime + usage.ru_stime, len(shown), len(texts[results])) + shown + texts[results]


def collect(texts, most, seconds, work):
    """Reads what comes over these pipes until both are closed. Returns a word of ENDED."""
    poll, now = select.poll(), time.monotonic()
    end, next_look = now + seconds, now + 0.1
    for descriptor in texts:
        poll.register(descriptor, select.POLLIN)
    left = len(texts)
    while left:
        now = time.monotonic()
        if now > end:
            return "timeout"
        if now > next_look:
            next_look = now + 0.1
            if worker.is_full(work):
                return "full"
        for descriptor, _ in poll.poll(1000 * max(0, min(end, next_look) - now) + 1):
            part = os.read(descriptor, 1 << 16)
            texts[descriptor] += part
            if not part:
                poll.unregister(descriptor)
                left -= 1
            if len(texts[descriptor]) > most[descriptor]:
                del texts[descriptor][most[descriptor]:]
                return "flood"
    return ""


def empty(folder):
    """Deletes the files in this folder. Returns False if something is left, such as a folder."""
    try:
        with os.scandir(folder) as items:
            for item in items:
                os.unlink(item)
        return not os.listdir(folder)
    except OSError:
        return False


def become_child(request, stdin, stdout, results):
    """Gives up every right and every open file but these three, runs the task, and ends this process."""
    end, status = os._exit, 1
    try:
        job = request[0]
        seccomp.die_with_parent(job["server"])
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(1, 2)
        os.dup2(results, 3)
        os.closerange(4, 1 << 16)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)
        limits.set_limits(job["processor"], job["megabytes"])
        seccomp.restrict()
        worker.run_task(*request, worker.send_to(3))
        sys.stdout.flush()
        status = 0
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        end(status)                             # ends exit handlers of the student's program


if __name__ == "__main__":
    serve_student()
