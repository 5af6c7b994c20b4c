"""Runs a student's program again: with its values recorded, with one small edit at a time, or with one value put right.

All of it happens in the student's process and is sent back like any other result. Nothing that is correct in the graded
cases is known here: values are put right only in cases that were drawn for this purpose.
"""

import ast
import contextlib
import functools
import io
import json
import signal
import time

import case_arguments
import fingerprints
import instrumenting
import limits
import tracing
import worker
from edits import edits

MOST_EDITS = 2000                               # edits of which the outputs are sent
SHORT, LONGER = 8, 5                            # characters of a part that is hard to find by itself, and around it
LONGEST_RUN = 0.2                               # processor seconds of one run in one case
SHORTEST_LIMIT, SLOWER = 0.01, 10               # an edit may take this long, or this many times as long as the program


class TooLong(BaseException):
    """Raised in a program that takes too long, such as one whose loop no longer ends."""


class StudentProgram:
    """A student's file in parts, so that a single function can be replaced.

    Parameters:
        source : bytes of the file
        names : what the file defines
        job : the request, with the file's name, the name of the function or class, and the names of given helpers
    """

    def __init__(self, source, names, job):
        self.job, self.module, self.text = job, names, source.decode("utf-8", "replace")
        self.tree, self.given = ast.parse(source), [*job["given"], *job["imported"]]        # a copy may stand in the file
        definitions = [item for item in self.tree.body if isinstance(item, (ast.FunctionDef, ast.ClassDef))]
        own = {item.name: item for item in definitions if item.name not in self.given}
        first = {name: own.pop(name) for name in [job["name"]] if name in own}          # a driver is not in the file
        self.definitions = {**first, **own}
        self.driver = compile(job.get("driver", ""), worker.DRIVER, "exec")
        self.compiled = {name: self.compile(item) for name, item in self.definitions.items()}

    def compile(self, definition):
        return compile(ast.Module([definition], []), self.job["file"], "exec")

    def target(self, **replaced):
        """Returns the function or class, with other code for some of the file's definitions."""
        names = dict(self.module)
        for code in (self.compiled | replaced).values():
            exec(code, names)
        return self.entry(names)

    def entry(self, names):
        """Returns the function or class to run, made of these names, which a driver does not change."""
        names = {**names}
        exec(self.driver, names)
        return names[self.job["name"]]

    def edits(self):
        """Yields (number, Edit, name of the definition); the definition's tree is edited while it is at this edit."""
        number = 0
        for name, methods in self.parts():
            for edit in edits(self.tree, name, insertions=True, methods=methods):
                yield number, edit, name
                number += 1

    def parts(self):
        """Returns (name of a definition, names of its methods; (): all), those that are most likely to be wrong first."""
        suspected, others, suspects = [], [], self.job.get("suspects", ())
        for name, definition in self.definitions.items():
            methods = [item.name for item in definition.body if isinstance(item, ast.FunctionDef)]
            first = [method for method in methods if f"{name}.{method}" in suspects]
            rest = [method for method in methods if method not in first]
            if first and rest:
                others.append((name, rest))
            (suspected if first or name in suspects else others).append((name, first))
        return suspected + others

    def edited(self, name):
        """Returns the function or class as the tree of this definition is now."""
        return self.target(**{name: self.compile(self.definitions[name])})

    def run(self, target, case):
        inputs, calls, _ = case
        return case_arguments.produce(target, fresh(inputs), fresh(calls), self.job["paths"])


def fresh(value):
    """Returns lists, tuples and dicts with copies of their arrays, which a program may change."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(fresh, value))
    if isinstance(value, dict):
        return {key: fresh(part) for key, part in value.items()}
    return value.copy() if hasattr(value, "dtype") else value


class Silence(io.TextIOBase):
    """Takes what the many runs print."""

    def write(self, text):
        return len(text)


@contextlib.contextmanager
def limited(seconds):
    """Raises TooLong in the block after this processor time, and again until it ends (not on Windows).

    A single long step, such as a power of huge integers, ends first. runs.py ends a process that takes too long.
    """
    def stop(*_):
        raise TooLong

    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def record_values(program, cases, send, np):
    """Sends the nodes of the program, and the fingerprints of their values in the given cases."""
    tracer = tracing.Tracer(ast.parse(program.text), program.text, program.given)
    recorder = fingerprints.Recorder()
    names = {**program.module, instrumenting.SEEN: recorder}
    definitions = [item for item in instrumenting.instrumented(tracer).body
                   if getattr(item, "name", "") in program.definitions]
    exec(compile(ast.Module(definitions, []), program.job["file"], "exec"), names)
    for i, case in enumerate(cases):
        recorder.case = i
        with contextlib.suppress(Exception, TooLong), limited(LONGEST_RUN):
            program.run(program.entry(names), case)
    roots = tracer.roots(program.job["name"], [method for method, _ in cases[0][1]], program.job["paths"])
    if "roots" in program.job:                  # of a driver
        roots = tracer.returned_by(program.job["roots"]) + tracer.stored_in(program.job["stored"])
    graph = {"nodes": [node.as_list() for node in tracer.nodes], "roots": roots}
    send(worker.NODES, 0, 0, json.dumps(graph).encode())
    rows = np.array(recorder.rows, float).reshape(-1, fingerprints.BEFORE + fingerprints.WIDTH)
    send(worker.VALUES, 0, 0, worker.as_npy(rows, np))


def try_edits(program, case, send, np):
    """Sends what each edit is, and the fingerprints of the outputs in one case, if it runs to its end.

    An edit may make an array huge or a loop endless: without limits of memory and time, no edit is tried.
    """
    if not limits.are_enforced():
        return
    start = time.process_time()
    end = start + program.job["rerun"]["seconds"]
    unedited = fingerprinted(program, program.target, case, LONGEST_RUN)
    seconds, sent = max(SHORTEST_LIMIT, SLOWER * (time.process_time() - start)), 0
    for number, edit, name in program.edits():
        if sent == MOST_EDITS or time.process_time() > end:
            break
        edited = fingerprinted(program, functools.partial(program.edited, name), case, min(seconds, LONGEST_RUN))
        if edited and edited != unedited:
            send(worker.TRIED, 0, number, worker.as_npy(np.array(edited, float), np))
            send_edit(number, edit, edit.before, "", send)
            sent += 1


def fingerprinted(program, make, case, seconds):
    """Returns the fingerprints of the outputs in one case, or None if there are none in this time.

    Parameters:
        make : function that returns the function or class to run
    """
    with contextlib.suppress(Exception, TooLong), limited(seconds):
        outputs = program.run(make(), case)[:worker.MOST_RESULTS + len(program.job["paths"])]
        output_fingerprints = [*map(fingerprints.fingerprint, outputs)]
        return output_fingerprints if all(output_fingerprints) else None


def send_edit(number, edit, text, around, send):
    description = {"line": edit.line, "kind": edit.kind, "text": text, "around": around,
                   "inserts": edit.before in edit.after and not edit.before.isdigit()}
    send(worker.EDIT, 0, number, json.dumps(description).encode())


def students_text(source, edit):
    """Returns the part of an edit as the student wrote it, and a longer part around it if it is short."""
    lines, place = source.splitlines(), (edit.line, edit.column, edit.end_line, edit.end_column)
    text = tracing.part_of(lines, *place)
    try:
        text = text if ast.unparse(ast.parse(text)) == edit.before else edit.before
    except SyntaxError:                         # a part that has no place of its own, such as a keyword argument
        text = edit.before
    around = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr):
            span = tracing.place_of(node)
            if span[:2] <= place[:2] and span[2:] >= place[2:]:
                around.append(tracing.part_of(lines, *span))
    longer = [part for part in around if len(part) >= len(text) + LONGER]
    return text, min(longer, key=len, default=edit.statement) if len(text) < SHORT else ""


def run_edits(program, cases, run_case, send):
    """Runs the wanted edits on all cases; the cases of the second one are numbered after those of the first."""
    wanted = program.job["rerun"]["edits"]
    for number, edit, name in program.edits():
        if number in wanted:
            send_edit(number, edit, *students_text(program.text, edit), send)
            start, target = len(cases) * wanted.index(number), program.edited(name)
            for i, case in enumerate(cases):
                with contextlib.suppress(TooLong), limited(LONGEST_RUN):
                    run_case(start + i, target, (fresh(case[0]), fresh(case[1]), case[2]))
        if number >= max(wanted):
            break


class Replacer:
    """Gives a node the correct value in place of its own: one for each visit, the same for all, or part after part."""

    def __init__(self, values, in_parts):
        self.values, self.in_parts, self.visits = values, in_parts, 0

    def __call__(self, number, value):
        visit = self.visits
        self.visits += 1
        if self.in_parts:
            return self.values[0].reshape(-1, *getattr(value, "shape", ()))[visit].copy()
        return self.values[visit if len(self.values) > 1 else 0].copy()


def run_replaced(program, cases, run_case, np):
    """Runs the program on all cases with each wanted value put right; numbers the cases as `run_edits` does."""
    for position, (number, in_parts, arrays) in enumerate(program.job["rerun"]["replaced"]):
        tracer = tracing.Tracer(ast.parse(program.text), program.text, program.given)
        tree = instrumenting.replaced(tracer, number)
        definitions = [item for item in tree.body if getattr(item, "name", "") in program.definitions]
        code = compile(ast.Module(definitions, []), program.job["file"], "exec")
        for i, (case, given) in enumerate(zip(cases, arrays)):
            replacer = Replacer([np.array(entries, dtype).reshape(shape) for dtype, shape, entries in given], in_parts)
            names = {**program.module, instrumenting.SEEN: replacer}
            exec(code, names)
            with contextlib.suppress(TooLong), limited(LONGEST_RUN):
                run_case(position * len(cases) + i, program.entry(names),
                         (fresh(case[0]), fresh(case[1]), case[2]))


def rerun(source, names, job, cases, send, run_case, np):
    """Does what the job asks for: records values and tries edits, or runs some edits or replaced values on all cases."""
    program = StudentProgram(source, names, job)
    silence = Silence()
    with np.errstate(all="ignore"), contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        if "edits" in job["rerun"]:
            run_edits(program, cases, run_case, send)
        elif "replaced" in job["rerun"]:
            run_replaced(program, cases, run_case, np)
        else:
            record_values(program, cases, send, np)
            try_edits(program, cases[job["rerun"]["case"]], send, np)
