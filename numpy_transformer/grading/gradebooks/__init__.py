"""Hands results to other systems: fills gradebooks, and writes what autograders read.

people.py, roster.py, times.py      the results of each student; who is who; when work was handed in
sheet.py, columns.py, filling.py    a CSV file in which some cells are filled, which ones, and what was left empty
canvas.py, moodle.py, summary.py    the gradebooks of Canvas and Moodle, and a plain table
gradescope.py, autograder.py        results for Gradescope, and the zip that runs there
harness.py, github.py               what runs in that zip; results for GitHub
"""

from pathlib import Path

from .. import report
from ..files import check_output, replace_file
from . import github, gradescope
from .canvas import CanvasGradebook
from .moodle import MoodleWorksheet
from .people import match
from .roster import add_roster
from .sheet import read_sheet
from .summary import summary_table


class Gradebooks:
    """The files for other systems that one grading run fills or writes.

    Reads the teacher's files before the work begins, so that a wrong file costs no time.

    Parameters:
        options : has the attributes summary, canvas, moodle, roster, gradescope and github (paths or None), column
            (texts or None), zero_if_missing, overwrite and bom (True or False) and delimiter
        students : list of Person; their rows may still be missing
        chosen : the exercises that are graded
        left_out : list of Person, the students of the class who are not in the table
    Raises: ValueError with one sentence if a file cannot be read or written.
    """

    def __init__(self, options, students, chosen, left_out=()):
        self.options, self.students, self.dialect = options, students, report.Dialect(options.delimiter, options.bom)
        self.class_ = [*students, *left_out]
        self.sentences = add_roster(self.class_, options.roster) if options.roster else []
        self.filled = []                        # (gradebook, path of the result)
        if options.canvas:
            self.add(CanvasGradebook(options.canvas, chosen, options.column or ()), options.canvas)
        elif options.column:
            raise ValueError("--column names columns of the gradebook that --canvas reads; add --canvas FILE")
        if options.moodle:
            self.add(MoodleWorksheet(options.moodle), options.moodle)
        for path in self.places():
            check_output(path)
        for option, path in (("--gradescope", options.gradescope), ("--github", options.github)):
            if path and len(students) != 1:
                raise ValueError(f"{option} writes the result of one student, but this class has {len(students)}; use "
                                 "it in the autograder, which grades one submission at a time")

    def add(self, gradebook, path):
        matches = match(self.class_, gradebook.lines(), gradebook.order)
        if not matches.pairs and matches.unmatched:
            raise ValueError(f"none of the {len(self.class_)} students of the class, such as "
                             f"{matches.unmatched[0].name}, is in {path}; if these are GitHub logins, name the list of "
                             "the class with --roster FILE")
        for person, line in matches.pairs:
            line.tell(person)
        result = graded_path(path)
        if result.exists() and not self.options.overwrite:
            check_earlier_result(result, gradebook)
        self.filled.append((gradebook, result))

    def places(self):
        """Returns the paths of all files that `write` writes."""
        options = self.options
        return [*filter(None, (options.summary, options.gradescope, options.github)),
                *(path for _, path in self.filled)]

    def write(self):
        """Writes all files. Returns their names, and sentences on what was entered where."""
        students, sentences = self.students, list(self.sentences)
        for gradebook, path in self.filled:
            filling = gradebook.fill(self.class_, self.options.zero_if_missing)
            replace_file(path, lambda file, book=gradebook: file.write(book.sheet.content()), encoding=None)
            sentences += [f"{path}:", *(f"  {sentence}" for sentence in filling.summary())]
        if self.options.summary:
            report.write_table(*summary_table(students), self.options.summary, self.dialect)
        if self.options.gradescope:
            report.write_json(gradescope.results(students[0]), self.options.gradescope, 0o644)
        if self.options.github:
            report.write_json(github.result(students[0]), self.options.github, 0o644)
        return [str(path) for path in self.places()], sentences


def graded_path(path):
    """Returns the path of the filled gradebook: grades.csv becomes grades-graded.csv."""
    return Path(path).with_name(f"{Path(path).stem}-graded{Path(path).suffix}")


def check_earlier_result(path, gradebook):
    """Raises ValueError if a file is not this gradebook with other grades, that is, if it is not an earlier result."""
    try:
        same = read_sheet(path).same_except(gradebook.sheet, gradebook.columns())
    except ValueError:
        same = False
    if not same:
        raise ValueError(f"{path} exists and is not this gradebook with grades entered; move it away, or use "
                         "--overwrite (the file is then kept as .bak)")
