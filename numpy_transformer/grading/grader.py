"""Grades a class: runs every student's file for every exercise in its own process, a few at a time."""

import hashlib
import queue
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, fields

import numpy as np

from ..classroom.diagnosis import AnswerKey
from ..classroom.exercise import Exercise
from ..classroom.sandbox.isolation import Stopped, run
from .report import LOOK_AT
from .submissions import one_line, printable, read, unusual_names
from ..classroom.verdict import Verdict, answers, judge

LONGEST_NOTE, LONGEST_LINE, PRINTED_LINES = 600, 2000, 40


@dataclass
class Row:
    """The result of one exercise of one student."""

    student: str
    number: str
    exercise: str                               # "ex01_2_softmax_backward"
    status: str
    points: int
    max: int
    misconception: str                          # names of known mistakes, as they appear in the table
    seconds: float
    note: str
    stage: str = ""
    lines: tuple = ()                           # the explanation for the student
    mistakes: tuple = ()                        # names of known mistakes, one entry for each possible explanation
    printed: str = ""
    answer: str = ""                            # digest of a wrong answer that no known mistake explains
    digest: str = ""                            # of the file

    @classmethod
    def from_journal(cls, values):
        """Returns the Row with these values, or None if the journal's entry is incomplete."""
        names = {field.name for field in fields(cls)}
        return cls(**values) if isinstance(values, dict) and set(values) == names else None


@dataclass
class ExerciseGrading:
    """One exercise while it is graded. Holds the answer key until the last student is done.

    Several threads run students' programs at the same time, but only one thread judges an exercise.
    """

    exercise: Exercise
    seed: int
    left: int                                   # students still to be graded

    def __post_init__(self):
        self.lock, self.answer_key = threading.Lock(), None

    def get_answer_key(self):
        with self.lock:
            if self.answer_key is None:
                self.answer_key = AnswerKey(self.exercise, self.seed)
            return self.answer_key

    def judge(self, answer_key, result):
        """Returns the Verdict on a Run, and a digest of the answer if it is wrong and no known mistake explains it."""
        with self.lock:
            try:
                verdict = judge(answer_key, result)
                unknown = verdict.status == "fail" and not verdict.mistakes and answer_key.expected
                return verdict, digest_of(answers(answer_key, result)) if unknown else ""
            except Exception as error:          # a program may return arrays that break any computation
                note = f"The results cannot be judged: {type(error).__name__}: {error}"
                return Verdict("error", "verdict", note), ""

    def finish_student(self):
        with self.lock:
            self.left -= 1
            if not self.left:
                self.answer_key = None          # frees its memory


class Grader:
    """Grades every file with the same seed and limits.

    Parameters:
        seed : int, the seed of the cases
        seconds, megabytes : limits for each file
        users : a user id for each program that may run at a time; None stands for the current user
        kept : {(student, number): row as a dict} of an earlier run, used if the file has not changed since
    """

    def __init__(self, seed, seconds, megabytes, users, kept):
        self.seed, self.seconds, self.megabytes, self.kept = seed, seconds, megabytes, kept
        self.users, self.jobs, self.stop = queue.SimpleQueue(), len(users), threading.Event()
        for user in users:
            self.users.put(user)

    def grade(self, students, chosen):
        """Yields a Row for each exercise of each student as soon as it is graded, exercise by exercise."""
        gradings = [ExerciseGrading(exercise, self.seed, len(students)) for exercise in chosen]
        with ThreadPoolExecutor(self.jobs) as pool:
            work = [pool.submit(self.grade_one, grading, student) for grading in gradings for student in students]
            try:
                for future in as_completed(work):
                    yield future.result()
            finally:                            # after an interruption, start no further program
                self.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def grade_one(self, grading, student):
        try:
            exercise = grading.exercise
            path, remark = student.file(exercise)
            content, problem = read(path) if path else (None, remark)
            if content is None:
                status = "error" if exercise.number in student.files else "missing"
                return make_row(student, exercise, Verdict(status, "", problem))
            digest = hashlib.sha256(content).hexdigest()
            row = Row.from_journal(self.kept.get((student.name, exercise.number)))
            if row is None or row.digest != digest:
                row = self.run(grading, student, content, digest)
            if remark not in row.note:
                row.note = f"{row.note}; {remark}" if row.note else remark
            return row
        finally:
            grading.finish_student()

    def run(self, grading, student, content, digest):
        answer_key, user = grading.get_answer_key(), self.users.get()
        try:
            if self.stop.is_set():
                raise Stopped
            result = run(content, grading.exercise, answer_key.cases, self.seconds, self.megabytes, user,
                         self.stop.is_set)
        finally:
            self.users.put(user)
        verdict, answer = grading.judge(answer_key, result)
        return make_row(student, grading.exercise, verdict, unusual_names(content), seconds=round(result.seconds, 2),
                        printed=result.printed, answer=answer, digest=digest)


def make_row(student, exercise, verdict, unusual=(), seconds=0.0, printed="", **more):
    """Returns the Row of a verdict. All its texts consist of single lines of printable characters."""
    notes = [verdict.note]
    if verdict.status == "fail" and not verdict.mistakes:
        notes += [line.removeprefix("DIAGNOSIS ") for line in verdict.lines if line.startswith("DIAGNOSIS ")]
    if unusual:
        notes.append(f"{LOOK_AT}: {', '.join(unusual)}")
    lines = verdict.lines or filter(None, [verdict.note])
    return Row(student.name, exercise.number, exercise.file.removesuffix(".py"), verdict.status,
               verdict.points(exercise.points), exercise.points, one_line(" or ".join(verdict.mistakes)), seconds,
               one_line("; ".join(note.rstrip(".") for note in notes if note), LONGEST_NOTE), verdict.stage,
               [printable(line[:LONGEST_LINE]) for line in lines], list(verdict.mistakes),
               "\n".join(map(printable, printed.splitlines()[:PRINTED_LINES])), **more)


def digest_of(observations):
    """Returns the same text for the same numbers, up to rounding."""
    text = []
    for array in (array for observation in observations for array in observation.outputs):
        y = np.asarray(array, float)
        scale = max(abs(y[np.isfinite(y)]), default=1.0) or 1.0
        text += [str(y.shape), f"{scale:.6g}", str((np.round(y / scale, 6) + 0.0).tolist())]
    return hashlib.sha256("".join(text).encode()).hexdigest()[:16] if text else ""
