"""Runs one task, a student's file on the cases of one exercise, and sends back raw arrays and short messages.

supervisor.py calls it in a sandbox. Elsewhere `python -I -S -B -X utf8 worker.py` runs one task by itself. What runs
here is one student's: expected values, other students' files and the package are not in reach.
"""

import contextlib
import faulthandler
import functools
import inspect
import io
import json
import linecache
import os
import struct
import sys
import traceback
import types

MESSAGE_LENGTH = 2000                           # characters of an error message, at most
MOST_RESULTS = 8                                # returned values that are sent; no exercise has more
MOST_PRINTED = 4 << 20                          # bytes that a task may print
MOST_SENT = 8 << 20                             # bytes of results of one task
MOST_BYTES, MOST_FILES = 64 << 20, 2000         # in the working folder; beyond these the task is stopped
REQUEST = struct.Struct("<3Q")                  # lengths of a request's JSON, its cases (JSON) and its arrays
REPLY = struct.Struct("<8siBdII")               # READY, exit code, ENDED, processor seconds, bytes printed and sent
RECORD = struct.Struct("<BHHI")                 # kind, case, index and length of one result
LOADING, CASE, OUTPUT, AFTER = range(4)         # kinds of results
AT_ONCE, AT_THE_END = range(2)                  # index of a report of a case: after it, or after all of them
NODES, VALUES, TRIED, EDIT = range(4, 8)        # kinds of results of reruns.py
ENDED = ("", "timeout", "full", "flood", "spoilt")
READY = b"sandbox\n"
DRIVER = "driver"                               # the name of a driver in a traceback
HELPERS = "numpy_transformer.course.helpers"    # the only module of the package that an exercise can import


def report_error(error, path, in_helper=False, folder=""):
    """Returns a report of an error, with the line of the student's file that raised it, unless a given helper did.

    Parameters:
        folder : the temporary folder of the student's files; their names in the message appear without it
    Returns: {"kind": such as "ValueError", "error": "ValueError: its message", "line": "3", "code": the text of line 3}
    """
    said = str(error).replace(os.path.join(folder, ""), "")
    report = {"kind": type(error).__name__, "error": f"{type(error).__name__}: {said.strip()}".strip()}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if isinstance(error, SyntaxError) and error.filename == path:
        report |= {"error": f"{type(error).__name__}: {error.msg}", "line": str(error.lineno)}
    elif frames and not in_helper:
        report |= {"line": str(frames[-1].lineno), "code": frames[-1].line or ""}
    return {key: text[:MESSAGE_LENGTH] for key, text in report.items()}


def helper_call(error, path, given):
    """Describes the call of a given helper in which an error was raised, or returns {} if it was raised elsewhere.

    Parameters:
        given : {name: function or class} of the helpers that the student's file contains or imports
    Returns: {"helper": its name, "line" and "code": the student's line that called it, "passed": the arrays that it got}
    """
    codes = {}
    for name, helper in given.items():
        functions = {f"{name}.{key}": value for key, value in vars(helper).items()} if isinstance(
            helper, type) else {name: helper}
        codes |= {value.__code__: key for key, value in functions.items() if inspect.isfunction(value)}
    caller = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code in codes and caller is not None:
            names = frame.f_code.co_varnames[:frame.f_code.co_argcount]
            shapes = {name: getattr(frame.f_locals.get(name), "shape", None) for name in names}
            passed = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if isinstance(shape, tuple))
            text = linecache.getline(path, caller).strip()
            return {"helper": codes[frame.f_code], "line": str(caller), "code": text[:MESSAGE_LENGTH], "passed": passed}
        if frame.f_code.co_filename == path:
            caller = line
    return {}


def load(source, path, name, driver=""):
    """Returns the student's function or class (None if it is missing) and the names that the file defines.

    Parameters:
        driver : source that is run after the file, in a copy of its names, and defines what is asked for with their help
    """
    sys.modules["exercise"] = module = types.ModuleType("exercise")
    lines = source.decode("utf-8", "replace").splitlines(keepends=True)
    linecache.cache[path] = (len(source), None, lines, path)        # for `report_error`
    exec(compile(source, path, "exec"), vars(module))
    names = {**vars(module)}
    exec(compile(driver, DRIVER, "exec"), names)
    if callable(names.get(name)):
        return names[name], sorted(names)
    return None, sorted(key for key, value in names.items() if callable(value) and not key.startswith("_"))


class Helpers(types.ModuleType):
    """The module HELPERS, with what the exercise imports.

    A file may answer several exercises. So a name that this exercise does not import stays what the file has defined, or
    stands for something that is not available.
    """

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        import limits  # loaded before the sandbox was closed
        own = vars(sys.modules["exercise"])
        return own[name] if name in own else limits.Spare(f"{HELPERS}.{name}")


def provide(source):
    """Makes HELPERS importable with what this source defines, although the package is not in reach."""
    sys.modules[HELPERS] = module = Helpers(HELPERS)
    exec(compile(source, HELPERS, "exec"), vars(module))


def seed_global_generators(source, np):
    """Seeds the global random generators, so that a program without a seed of its own is reproducible."""
    if b"random" in source:                     # otherwise NumPy need not load its random module
        import random
        random.seed(0)
        np.random.seed(0)


def describe_parameters(target, inputs):
    """Returns a report with the names of the parameters, and why a call with these arguments fails if it does."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):             # builtins have no signature; calling them will show any problem
        return {}
    report = {"takes": [name[:100] for name in signature.parameters][:20]}
    try:
        signature.bind(*inputs)
    except TypeError as error:
        report |= {"stage": "arguments", "error": str(error)[:MESSAGE_LENGTH]}
    return report


def run_task(job, cases, blob, send):
    """Runs one task. Calls send(kind, case, index, bytes) for each result."""
    import case_arguments  # loaded before the sandbox was closed, like NumPy
    import numpy as np

    def report(record, case=0, /, **fields):
        send(record, case, AT_ONCE, json.dumps(fields).encode())

    with open(os.path.join(job["folder"], job["file"]), "rb") as file:
        source = file.read()
    cases, reuses = case_arguments.unpack(json.loads(cases), blob, np)
    returned = case_arguments.Returned()
    seed_global_generators(source, np)
    if "helpers" in job:
        provide(job["helpers"])
    try:
        target, names = load(source, job["file"], job["name"], job.get("driver", ""))
    except BaseException as error:              # SystemExit too
        return report(LOADING, stage="import", **report_error(error, job["file"], folder=job["folder"]))
    if target is None:
        return report(LOADING, stage="name", names=names[:20])
    parameters = describe_parameters(target, cases[0][0])
    report(LOADING, **parameters)
    if "error" in parameters:
        return None

    def run_case(i, target, case):
        inputs, calls, before = case
        arguments = case_arguments.Arguments(inputs, calls, np.ndarray)
        try:
            keep = functools.partial(returned.keep, i, arguments.arrays, np)
            outputs = case_arguments.produce(target, inputs, calls, job["paths"], keep)[:len(job["paths"]) + MOST_RESULTS]
            send_outputs(i, outputs, send, np)
            send_changed(i, before, arguments.arrays, send, np)
            report(CASE, i, kinds=[type(output).__name__ for output in outputs],
                   changed=[str(place) for place in arguments.changed()])
        except BaseException as error:
            names = vars(sys.modules["exercise"])
            given = {name: value for name, value in names.items()
                     if name in job.get("given", ()) or getattr(value, "__module__", "") == HELPERS}
            call = helper_call(error, job["file"], given)
            report(CASE, i, **report_error(error, job["file"], bool(call), job["folder"]), **call)

    if "rerun" in job:
        import reruns  # loaded before the sandbox was closed
        return reruns.rerun(source, vars(sys.modules["exercise"]), job, cases, send, run_case, np)
    for i, (case, former) in enumerate(zip(cases, reuses)):
        if former is not None:
            case = *map(case_arguments.reused, cases[former][:2], case[:2]), case[2]
        run_case(i, target, case)
    for i, places in returned.changed().items():
        send(CASE, i, AT_THE_END, json.dumps({"overwritten": [str(place) for place in places]}).encode())


def send_outputs(i, outputs, send, np):
    """Sends the outputs of case i that are numeric arrays."""
    for j, output in enumerate(outputs):
        try:
            array = np.asarray(output)
        except ValueError:                      # a list of arrays with different shapes: only its type is reported
            continue
        if array.dtype.kind in "fiub":
            send(OUTPUT, i, j, as_npy(array, np))


def send_changed(i, before, after, send, np):
    """Sends the arrays of case i that were changed in place."""
    for j, (kind, shape, content) in enumerate(before):
        if (after[j].dtype.str, after[j].shape, after[j].tobytes()) != (kind, shape, content):
            send(AFTER, i, j, as_npy(after[j], np))


def as_npy(array, np):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def send_to(descriptor):
    def send(kind, case, index, content):
        write_all(descriptor, RECORD.pack(kind, case, index, len(content)) + content)
    return send


def write_all(descriptor, content):
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view):]


def read_exactly(count):
    """Returns this many bytes from stdin, or fewer at its end."""
    parts = []
    while count:
        parts.append(os.read(0, min(count, 1 << 20)))
        count -= len(parts[-1])
        if not parts[-1]:
            break
    return b"".join(parts)


def read_request():
    """Returns the next request: JSON, the cases as JSON text, and the arrays' bytes; None at the end."""
    head = read_exactly(REQUEST.size)
    if len(head) < REQUEST.size:
        return None
    request, cases, blob = map(read_exactly, REQUEST.unpack(head))
    return json.loads(request), cases, blob


def import_numpy(folder):
    """Imports NumPy from a folder whose other packages stay out of reach."""
    sys.path.append(folder)
    import numpy.lib.format  # noqa: F401
    sys.path.remove(folder)


def is_full(folder):
    """Returns True if the folder holds more than any exercise needs to write. Does not follow links.

    A folder in it that cannot be listed, because it is closed or lies too deep, is full: it may hold anything.
    """
    folders, size, count = [folder], 0, 0
    while folders:
        try:
            with os.scandir(folders.pop()) as items:
                for item in items:
                    size += item.stat(follow_symlinks=False).st_size
                    count += 1
                    if size > MOST_BYTES or count > MOST_FILES:
                        return True
                    if item.is_dir(follow_symlinks=False):
                        folders.append(item.path)
        except (FileNotFoundError, NotADirectoryError):     # it has gone; the program may change it at any time
            continue
        except OSError:
            return True
    return False


def alone():
    """Runs one task in this process, without a sandbox: stdout takes the results, stderr what is printed."""
    job, cases, blob = read_request()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import case_arguments  # noqa: F401
    import limits
    if "rerun" in job:
        import reruns  # noqa: F401
    del sys.path[0]
    import_numpy(job["numpy"])
    sys.meta_path.append(limits.LastFinder())
    results = os.dup(1)
    os.dup2(2, 1)
    sys.path.append(job["folder"])
    trace = open(job["trace"], "w", encoding="utf-8")
    faulthandler.dump_traceback_later(0.7 * job["seconds"], file=trace)      # of a loop that never ends
    limits.set_limits(job["processor"], job["megabytes"])
    end, status = os._exit, 1
    try:
        run_task(job, cases, blob, send_to(results))
        status = 0
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(BaseException):    # the student's program may have closed or replaced stdout
        sys.stdout.flush()
    end(status)


if __name__ == "__main__":
    alone()
