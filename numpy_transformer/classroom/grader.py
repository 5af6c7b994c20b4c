"""Grade a class: every student's file for every exercise, in processes of their own, a few at a time."""

import hashlib
import queue
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, fields

import numpy as np

from .diagnosis import Library
from .exercise import Exercise
from .isolation import Stopped, run
from .report import LOOK
from .submissions import clean, printable, read, suspects
from .verdict import Verdict, answers, judge


@dataclass
class Row:
    """One exercise of one student."""

    student: str
    number: str
    exercise: str                               # "ex01_2_softmax_backward"
    status: str
    points: int
    max: int
    misconception: str
    seconds: float
    note: str
    stage: str = ""
    lines: tuple = ()                           # to the student
    mistakes: tuple = ()                        # names of the known ones, one entry for each explanation
    printed: str = ""
    answer: str = ""                            # a digest of a wrong answer that no mistake explains
    digest: str = ""                            # of the file

    @classmethod
    def kept(cls, values):
        """From a journal; None if something is missing there."""
        names = {field.name for field in fields(cls)}
        return cls(**values) if isinstance(values, dict) and set(values) == names else None


@dataclass
class Shelf:
    """The library of one exercise, while it is needed. Judging is one thread's work at a time."""

    exercise: Exercise
    seed: int
    left: int                                   # students still to be graded

    def __post_init__(self):
        self.lock, self.library = threading.Lock(), None

    def get(self):
        with self.lock:
            self.library = self.library or Library(self.exercise, self.seed)
            return self.library

    def judge(self, library, came):
        """The verdict, and a digest of the answer if it is wrong and unknown."""
        with self.lock:
            try:
                verdict = judge(library, came)
                unknown = verdict.status == "fail" and not verdict.mistakes and library.expected
                return verdict, digest_of(answers(library, came)) if unknown else ""
            except Exception as error:          # whatever strange arrays can bring about
                note = f"what came back cannot be judged: {type(error).__name__}: {error}"
                return Verdict("error", "verdict", note), ""

    def done(self):
        with self.lock:
            self.left -= 1
            self.library = self.library if self.left else None


class Grader:
    """Grades with one seed and the same limits for all.

    Parameters:
        users : the id that runs the program, one for each that may run at a time (None: whoever grades)
        kept : {(student, number): row as a dict} of an earlier run; taken where the file is still the same
    """

    def __init__(self, seed, seconds, megabytes, users, kept):
        self.seed, self.seconds, self.megabytes, self.kept = seed, seconds, megabytes, kept
        self.users, self.jobs, self.stop = queue.SimpleQueue(), len(users), threading.Event()
        for user in users:
            self.users.put(user)

    def grade(self, students, chosen):
        """Yield a Row for each exercise of each student as it is done, exercise by exercise."""
        shelves = [Shelf(exercise, self.seed, len(students)) for exercise in chosen]
        with ThreadPoolExecutor(self.jobs) as pool:
            work = [pool.submit(self.one, shelf, student) for shelf in shelves for student in students]
            try:
                for future in as_completed(work):
                    yield future.result()
            finally:                            # after an interruption nothing new is begun
                self.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def one(self, shelf, student):
        try:
            exercise = shelf.exercise
            path, beside = student.file(exercise)
            content, problem = read(path) if path else (None, beside)
            if content is None:
                status = "error" if exercise.number in student.files else "missing"
                return row(student, exercise, Verdict(status, "", problem))
            digest = hashlib.sha256(content).hexdigest()
            earlier = Row.kept(self.kept.get((student.name, exercise.number)))
            done = earlier if earlier and earlier.digest == digest else self.run(shelf, student, content, digest)
            done.note = done.note if beside in done.note else f"{done.note}; {beside}".lstrip("; ")
            return done
        finally:
            shelf.done()

    def run(self, shelf, student, content, digest):
        library, user = shelf.get(), self.users.get()
        try:
            if self.stop.is_set():
                raise Stopped
            came = run(content, shelf.exercise, library.cases, self.seconds, self.megabytes, user, self.stop.is_set)
        finally:
            self.users.put(user)
        verdict, answer = shelf.judge(library, came)
        return row(student, shelf.exercise, verdict, seconds=round(came.seconds, 2), printed=came.printed,
                   answer=answer, digest=digest, seen=suspects(content))


def row(student, exercise, verdict, seen=(), **more):
    """The Row of a verdict; every text in it is one line of printable characters."""
    relation = [line.removeprefix("DIAGNOSIS ") for line in verdict.lines if line.startswith("DIAGNOSIS ")]
    parts = [verdict.note, *(relation if verdict.status == "fail" and not verdict.mistakes else ()),
             *([f"{LOOK}: {', '.join(seen)}"] if seen else ())]
    more.setdefault("seconds", 0.0)
    more["printed"] = "\n".join(map(printable, more.get("printed", "").splitlines()[:40]))
    return Row(student.name, exercise.number, exercise.file.removesuffix(".py"), verdict.status,
               verdict.points(exercise.points), exercise.points, clean(" or ".join(verdict.mistakes)),
               note=clean("; ".join(filter(None, parts)), 600), stage=verdict.stage,
               lines=[printable(line[:2000]) for line in verdict.lines or filter(None, [verdict.note])], mistakes=list(verdict.mistakes), **more)


def digest_of(observations):
    """The same text for the same numbers, up to rounding."""
    text = []
    for array in (array for observation in observations for array in observation.outputs):
        y = np.asarray(array, float)
        scale = max(abs(y[np.isfinite(y)]), default=1.0) or 1.0
        text += [str(y.shape), f"{scale:.6g}", str((np.round(y / scale, 6) + 0.0).tolist())]
    return hashlib.sha256("".join(text).encode()).hexdigest()[:16] if text else ""
