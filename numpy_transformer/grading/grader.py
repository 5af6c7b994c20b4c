"""Grades a class: runs the files of one student after the other in a sandbox, a few students at a time."""

import contextlib
import itertools
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ..course.checker.diagnosis import AnswerKey
from ..course.checker.localize import localize
from ..course.checker.verdict import Verdict, is_unexplained, judge
from ..course.sandbox import ProgramTask, Stopped, run_files
from ..texts import Message
from .gradable import is_stage
from .rows import (Judgment, Row, digest_of, digest_of_files, killed, make_row, row_without_file, unreadable,
                   with_arrival)
from .stages import JUDGING, StageJudge


class Judge:
    """Judges one exercise. Several threads run students' files at the same time, but only one judges."""

    def __init__(self, exercise, seed):
        self.exercise, self.seed = exercise, seed
        self.built = None
        self.localized = {}                     # {(text of a file, note): Messages that localize added}

    @property
    def answer_key(self):
        with JUDGING:
            if self.built is None:
                self.built = AnswerKey(self.exercise, self.seed)
            return self.built

    def grade(self, file, files, execute):
        """Returns the Judgment of a file.

        Parameters:
            file : arrival.File
            files : {name: bytes} of all Python files of the student
            execute : function (files, task) that runs a ProgramTask in the student's sandbox and returns its ProgramRun
        """
        run = execute(files, ProgramTask(self.exercise, self.answer_key.cases, file.name))
        verdict, answer = self.judge(run)
        if is_unexplained(self.answer_key, verdict):
            verdict = self.localize(verdict, run, file, lambda task: execute(files, task))
        return Judgment(verdict, run.seconds, run.printed, answer)

    def judge(self, run):
        """Returns the Verdict on a ProgramRun, and a digest of a wrong answer that no known mistake explains."""
        answer_key = self.answer_key
        with JUDGING:
            try:
                verdict = judge(answer_key, run)
                unknown = verdict.status == "fail" and not verdict.mistakes and answer_key.expected
                return verdict, digest_of(answer_key.answers(run)) if unknown else ""
            except Exception as error:          # a program may return arrays that break any computation
                note = Message("verdict.ending.not_judged", error=f"{type(error).__name__}: {error}")
                return Verdict("error", "verdict", note), ""

    def localize(self, verdict, run, file, execute):
        """Returns the Verdict with Messages that say where a mistake without a name is. Equal files are run once.

        Parameters:
            file : arrival.File
            execute : function that runs a ProgramTask in the student's sandbox and returns its ProgramRun
        """
        text = "\n".join(line.rstrip() for line in file.content.decode("utf-8", "replace").splitlines())
        key = text, verdict.note                # the note differs if the file imports others that differ
        if key not in self.localized:
            try:
                with_places = localize(self.answer_key, verdict, run, file.name, execute)
            except (Stopped, OSError):
                raise
            except Exception:                   # it reads what the student's process sent; the verdict stands without
                with_places = verdict
            self.localized[key] = with_places.lines[len(verdict.lines):]
        return replace(verdict, lines=(*verdict.lines, *self.localized[key]))


class StudentRuns(contextlib.ExitStack):
    """Runs programs of one student until it is closed. Tasks that follow each other with the same files share a sandbox.

    Parameters:
        run_tasks : function (files, tasks) that yields a ProgramRun for each task of a list, which grows meanwhile
    """

    def __init__(self, run_tasks):
        super().__init__()
        self.run_tasks, self.files, self.tasks, self.runs = run_tasks, None, [], None

    def execute(self, files, task):
        """Returns the ProgramRun of a task with these files, {name: bytes}."""
        if files != self.files:
            self.close()
            self.files, self.tasks = files, []
            self.runs = self.enter_context(contextlib.closing(self.run_tasks(self.files, self.tasks)))
        self.tasks.append(task)
        return next(self.runs)


@dataclass
class FileToGrade:
    """A file that counts for an exercise or a stage, and its digest."""

    exercise: object
    file: object                                # arrival.File
    digest: str


class Grader:
    """Grades every file with the same seed and limits.

    Parameters:
        chosen : the exercises and stages
        seed : int, the seed of the cases
        layer : the layer of the sandbox
        journal : Journal, which holds the rows of an interrupted run and takes those of this one
        choose : function (student, number) that returns the files to grade, the one handed in last at the end
        seconds, megabytes : limits for each file
        jobs : number of students whose files run at the same time
    """

    def __init__(self, chosen, seed, layer, journal, choose, seconds=10, megabytes=1024, jobs=2):
        self.judges = {one.number: (StageJudge if is_stage(one.number) else Judge)(one, seed) for one in chosen}
        self.layer, self.journal, self.choose = layer, journal, choose
        self.seconds, self.megabytes, self.jobs = seconds, megabytes, jobs
        self.stop = threading.Event()

    def grade(self, students):
        """Yields (student, File, Row) for each file, as soon as it is graded, and for each exercise without one.

        There a Problem takes the place of the File, or None if nothing was handed in.

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
                self.stop.set()
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
        """Yields (student, File or Problem or None, Row) for all of a student's exercises."""
        attempts = {number: list(self.choose(student, number)) for number in self.judges}
        for number in self.judges:
            if not attempts[number]:
                row = row_without_file(student, self.judges[number].exercise)
                yield student, unreadable(student, number), with_arrival(row, student, graded=False)
        # The newest files run together, then those before them: files of one round can import each other.
        for files in itertools.zip_longest(*(reversed(files) for files in attempts.values())):
            chosen = [(number, file) for number, file in zip(attempts, files) if file]
            for attempt, row in self.grade_round(student, chosen):
                yield student, attempt.file, with_arrival(row, student)

    def grade_round(self, student, chosen):
        """Yields (FileToGrade, Row) for one file of each of these exercises."""
        files = {file.name: file.content for _, file in chosen}
        files |= {name: content for name, content in student.files.items() if name not in files}
        others = digest_of_files(files)
        waiting = []
        for number, file in chosen:
            attempt = FileToGrade(self.judges[number].exercise, file, digest_of_files({number: others, "": file.content}))
            row = self.finished_row(student, attempt)
            if row:
                yield attempt, row
            else:
                waiting.append(attempt)
        yield from self.run(student, waiting, files)

    def finished_row(self, student, attempt):
        """Returns the row of an interrupted run if the file has not changed since, else None."""
        key = student.name, attempt.exercise.number, attempt.digest
        if key in self.journal.fatal:
            return killed(student, attempt.exercise, attempt.digest)
        return Row.from_journal(self.journal.rows.get(key, {}))

    def run(self, student, attempts, files):
        """Runs files of one student in the sandbox. Yields (FileToGrade, Row)."""
        with StudentRuns(self.run_tasks) as runs:
            for attempt in attempts:
                if self.stop.is_set():
                    raise Stopped
                self.journal.started((student.name, attempt.exercise.number, attempt.digest))
                judgment = self.judges[attempt.exercise.number].grade(attempt.file, files, runs.execute)
                row = make_row(student, attempt.exercise, judgment.verdict, attempt.file, round(judgment.seconds, 2),
                               judgment.printed, answer=judgment.answer, digest=attempt.digest)
                self.journal.add(row)
                yield attempt, row

    def run_tasks(self, files, tasks):
        """Yields a ProgramRun for each task. Tries again for a while if the sandbox does not start on a busy machine."""
        done = 0
        for pause in (1, 5, 30, None):
            try:
                rest = itertools.islice(tasks, done, None)
                with contextlib.closing(run_files(files, rest, self.layer, self.seconds, self.megabytes,
                                                  self.stop.is_set)) as runs:
                    for run in runs:
                        done += 1
                        yield run
                return
            except OSError:
                if pause is None:
                    raise
                self.stop.wait(pause)
