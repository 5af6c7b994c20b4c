"""Grades a class: runs the files of one student after the other in a sandbox, a few students at a time."""

import contextlib
import hashlib
import itertools
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields

import numpy as np

from ..classroom.diagnosis import AnswerKey
from ..classroom.verdict import Verdict, answers, judge
from .arrival import one_line, printable, unusual_names
from .report import LOOK_AT
from ..classroom.sandbox import Stopped, Task, run_files

LONGEST_NOTE, LONGEST_LINE, PRINTED_LINES = 600, 2000, 40
KILLED = ("The grader was killed while it ran this file, which was not run again; look at it, and grade it with "
          "--retry")


@dataclass
class Row:
    """The result of one exercise of one student."""

    student: str
    number: str
    exercise: str                               # "ex01_2_softmax_backward"
    status: str
    points: float                               # an int unless lateness takes a part
    max: int
    misconception: str                          # names of known mistakes, as they appear in the table
    seconds: float
    note: str                                   # for the teacher
    stage: str = ""
    lines: list = field(default_factory=list)  # the explanation for the student
    mistakes: list = field(default_factory=list)  # names of known mistakes, one entry for each possible explanation
    remarks: list = field(default_factory=list)  # sentences about how the file arrived, for teacher and student
    printed: str = ""
    answer: str = ""                            # digest of a wrong answer that no known mistake explains
    digest: str = ""                            # of the file, and of the student's other files, which it may import
    ids: dict = field(default_factory=dict)     # of the student, such as {"canvas": "1234"}
    submitted: str = ""                         # when, as ISO text
    late: int = 0                               # days
    deducted: float = 0                         # points taken off for lateness

    @property
    def whole_note(self):
        """The note and the remarks, as the table shows them."""
        return one_line("; ".join(part.rstrip(".") for part in (self.note, *self.remarks) if part), LONGEST_NOTE)

    @property
    def key(self):
        """What the journal knows the row by."""
        return self.student, self.number, self.digest

    @classmethod
    def from_journal(cls, values):
        """Returns the Row with these values, or None if they come from another version of the grader."""
        return cls(**values) if set(values) == {field.name for field in fields(cls)} else None


class Judge:
    """Judges one exercise. Several threads run students' files at the same time, but only one judges an exercise."""

    def __init__(self, exercise, seed):
        self.exercise, self.seed = exercise, seed
        self.lock, self.built = threading.Lock(), None

    @property
    def answer_key(self):
        with self.lock:
            if self.built is None:
                self.built = AnswerKey(self.exercise, self.seed)
            return self.built

    def judge(self, run):
        """Returns the Verdict on a Run, and a digest of the answer if it is wrong and no known mistake explains it."""
        answer_key = self.answer_key
        with self.lock:
            try:
                verdict = judge(answer_key, run)
                unknown = verdict.status == "fail" and not verdict.mistakes and answer_key.expected
                return verdict, digest_of(answers(answer_key, run)) if unknown else ""
            except Exception as error:          # a program may return arrays that break any computation
                note = f"The results cannot be judged: {type(error).__name__}: {error}"
                return Verdict("error", "verdict", note), ""


@dataclass
class Attempt:
    """A file that counts for an exercise, and its digest."""

    exercise: object
    file: object                                # arrival.File
    digest: str


class Grader:
    """Grades every file with the same seed and limits.

    Parameters:
        chosen : the exercises
        seed : int, the seed of the cases
        layer : the layer of the sandbox
        journal : Journal, which holds the rows of an interrupted run and takes those of this one
        choose : function (student, number) that returns the files to grade, the one handed in last at the end
        seconds, megabytes : limits for each file
        jobs : number of students whose files run at the same time
    """

    def __init__(self, chosen, seed, layer, journal, choose, seconds=10, megabytes=1024, jobs=2):
        self.judges = {exercise.number: Judge(exercise, seed) for exercise in chosen}
        self.layer, self.journal, self.choose = layer, journal, choose
        self.seconds, self.megabytes, self.jobs = seconds, megabytes, jobs
        self.stop = threading.Event()

    def grade(self, students):
        """Yields (student, File or None, Row) for each file and each missing one, as soon as it is graded.

        Students with a file that was running when the grader was killed, beside others, come first and alone: if one
        of these files kills the grader, the next run knows which.
        """
        suspected = {name for name, _, _ in self.journal.suspects}
        first = [student for student in students if student.name in suspected]
        rest = [student for student in students if student.name not in suspected]
        yield from self.grade_some(first, 1)
        yield from self.grade_some(rest, self.jobs)

    def grade_some(self, students, jobs):
        results, left = queue.SimpleQueue(), len(students)

        def work(student):
            try:
                for result in self.grade_student(student):
                    results.put(result)
                results.put(None)
            except BaseException as error:      # raised again by the thread that waits
                results.put(error)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                for student in students:
                    pool.submit(work, student)
                while left:
                    result = results.get()
                    if isinstance(result, BaseException):
                        raise result
                    if result is None:
                        left -= 1
                    else:
                        yield result
            finally:                            # after an interruption, start no further program
                self.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                self.stop.clear()

    def grade_student(self, student):
        """Yields (student, File or None, Row) for all of a student's exercises."""
        attempts = {number: list(self.choose(student, number)) for number in self.judges}
        for number in self.judges:
            if not attempts[number]:
                yield student, None, without_file(student, self.judges[number].exercise)
        # The newest files run together, then those before them: files of one round can import each other.
        for files in itertools.zip_longest(*(reversed(files) for files in attempts.values())):
            chosen = [(number, file) for number, file in zip(attempts, files) if file]
            yield from self.grade_round(student, chosen)

    def grade_round(self, student, chosen):
        """Yields the results of one file for each of these exercises, run in one sandbox."""
        files = {**student.files, **{file.name: file.content for _, file in chosen}}
        others = digest_of_files(files)
        waiting = []
        for number, file in chosen:
            attempt = Attempt(self.judges[number].exercise, file, digest_of_files({number: others, "": file.content}))
            row = self.known(student, attempt)
            if row:
                yield student, file, row
            else:
                waiting.append(attempt)
        for attempt, row in self.run(student, waiting, files):
            yield student, attempt.file, row

    def known(self, student, attempt):
        """Returns the row of an interrupted run if the file has not changed since, else None."""
        key = student.name, attempt.exercise.number, attempt.digest
        if key in self.journal.guilty:
            return make_row(student, attempt.exercise, Verdict("error", "killed", KILLED), digest=attempt.digest)
        return Row.from_journal(self.journal.rows.get(key, {}))

    def run(self, student, attempts, files):
        """Yields (attempt, Row) for attempts that run in one sandbox."""
        tasks = [Task(attempt.exercise, self.judges[attempt.exercise.number].answer_key.cases, attempt.file.name)
                 for attempt in attempts]
        with contextlib.closing(self.run_tasks(files, tasks)) as runs:
            for attempt in attempts:
                if self.stop.is_set():
                    raise Stopped
                self.journal.started((student.name, attempt.exercise.number, attempt.digest))
                run = next(runs)
                verdict, answer = self.judges[attempt.exercise.number].judge(run)
                row = make_row(student, attempt.exercise, verdict, look_at(attempt.file.content),
                               seconds=round(run.seconds, 2), printed=run.printed, answer=answer,
                               digest=attempt.digest)
                self.journal.add(row)
                yield attempt, row

    def run_tasks(self, files, tasks):
        """Yields a Run for each task. Tries again for a while if the sandbox does not start on a busy machine."""
        done = 0
        for pause in (1, 5, 30, None):
            try:
                with contextlib.closing(run_files(files, tasks[done:], self.layer, self.seconds, self.megabytes,
                                                  self.stop.is_set)) as runs:
                    for run in runs:
                        done += 1
                        yield run
                return
            except OSError:
                if pause is None:
                    raise
                self.stop.wait(pause)


def look_at(content):
    """Returns the unusual names in a file; they are only a help, so that no file can stop the grading by them."""
    try:
        return unusual_names(content)
    except Exception as error:
        return [f"{type(error).__name__} while its names were read"]


def without_file(student, exercise):
    """Returns the Row of an exercise without a readable file: an error if something is there, else missing."""
    problems = [problem for problem in student.problems if problem.number in (exercise.number, "")]
    if problems:
        note = "; ".join(f"{problem.where}: {problem.sentence}".rstrip(".") for problem in problems)
        return make_row(student, exercise, Verdict("error", "reading", note), remarks=())
    return make_row(student, exercise, Verdict("missing", "", f"no file {exercise.file}"))


def make_row(student, exercise, verdict, unusual=(), seconds=0.0, printed="", remarks=None, **more):
    """Returns the Row of a verdict. All its texts consist of single lines of printable characters."""
    notes = [verdict.note]
    if verdict.status == "fail" and not verdict.mistakes:
        notes += [line.removeprefix("DIAGNOSIS ") for line in verdict.lines if line.startswith("DIAGNOSIS ")]
    if unusual:
        notes.append(f"{LOOK_AT}: {', '.join(unusual)}")
    lines = verdict.lines or filter(None, [verdict.note])
    if remarks is None:
        remarks = remarks_on(student, exercise.number)
    return Row(student.name, exercise.number, exercise.file.removesuffix(".py"), verdict.status,
               verdict.points(exercise.points), exercise.points, one_line(" or ".join(verdict.mistakes)), seconds,
               one_line("; ".join(note.rstrip(".") for note in notes if note), LONGEST_NOTE), verdict.stage,
               [printable(line[:LONGEST_LINE]) for line in lines], list(verdict.mistakes),
               [one_line(remark, LONGEST_LINE) for remark in remarks],
               "\n".join(map(printable, printed.splitlines()[:PRINTED_LINES])), ids=dict(student.ids), **more)


def problems_of(students):
    """Returns {student: sentences} about files that belong to no exercise."""
    found = {student.name: [one_line(f"{problem.where}: {problem.sentence}", LONGEST_LINE)
                            for problem in student.problems if not problem.number] for student in students}
    return {name: sentences for name, sentences in found.items() if sentences}


def remarks_on(student, number):
    """Returns sentences on how the files for an exercise arrived, and on those that could not be read."""
    unreadable = [f"{problem.where}: {problem.sentence}" for problem in student.problems if problem.number == number]
    return [*student.remarks.get(number, []), *unreadable]


def digest_of_files(files):
    """Returns a digest of {name: bytes or digest}."""
    whole = hashlib.sha256()
    for name in sorted(files):
        content = files[name] if isinstance(files[name], bytes) else files[name].encode()
        whole.update(f"{len(name.encode())} {name} {len(content)} ".encode() + content)
    return whole.hexdigest()


def digest_of(observations):
    """Returns the same text for the same numbers, up to rounding."""
    text = []
    for array in (array for observation in observations for array in observation.outputs):
        y = np.asarray(array, float)
        scale = max(abs(y[np.isfinite(y)]), default=1.0) or 1.0
        text += [str(y.shape), f"{scale:.6g}", str((np.round(y / scale, 6) + 0.0).tolist())]
    return hashlib.sha256("".join(text).encode()).hexdigest()[:16] if text else ""
