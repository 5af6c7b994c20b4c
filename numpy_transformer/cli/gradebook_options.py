"""The options of `numpy-transformer grade` that hand the results to Canvas, Moodle, Gradescope, GitHub and Excel."""

from pathlib import Path

from ..grading.gradebooks import graded_path
from ..grading.gradebooks.moodle import MoodleWorksheet
from ..grading.gradebooks.sheet import read_sheet


def add_options(parser):
    group = parser.add_argument_group(
        "gradebooks", "Canvas and Moodle: download the gradebook, name it here, and upload the file that is written "
        "beside it, such as grades-graded.csv. Only grades and comments of students who handed something in change.")
    group.add_argument("--canvas", metavar="FILE", type=Path, help="gradebook exported from Canvas (.csv)")
    group.add_argument("--column", metavar="NAME", action="append",
                       help="column of the Canvas gradebook for the total, or 05=NAME for a lesson's points, 05.2=NAME "
                            "for an exercise's, stage5=NAME for a stage's (default: columns named 05.2, 'Stage 5' or "
                            "'Lesson 05', or after an exercise)")
    group.add_argument("--moodle", metavar="FILE", type=Path,
                       help="grading worksheet of an assignment, downloaded from Moodle (.csv)")
    group.add_argument("--roster", metavar="FILE", type=Path,
                       help="list of the class that says whose GitHub logins the names in the table are (.csv)")
    group.add_argument("--zero-if-missing", action="store_true",
                       help="enter 0 for students who handed nothing in, instead of leaving their grades as they are; "
                            "never for students of another part or whom --students leaves out")
    group.add_argument("--summary", metavar="FILE", type=Path, help="table with one row for each student (.csv)")
    group.add_argument("--bom", action="store_true",
                       help="begin CSV files with a byte order mark, so that Excel reads accents correctly")
    group.add_argument("--delimiter", choices=(",", ";"), default=",", metavar="CHAR",
                       help="';' for Excel in countries with a decimal comma; numbers then have one")
    group.add_argument("--gradescope", metavar="FILE", type=Path,
                       help="results.json of Gradescope's autograder, for one student")
    group.add_argument("--github", metavar="FILE", type=Path,
                       help="result of autograding on GitHub (.json), for one student")


def check_downloads(arguments):
    """Checks before the class is read that the teacher's files can be. Raises ValueError."""
    for path in filter(None, (arguments.canvas, arguments.roster)):
        read_sheet(path)
    if arguments.moodle:
        MoodleWorksheet(arguments.moodle)


def downloads(arguments):
    """Returns the paths of the files that these options read, and of the filled gradebooks; no two may be the same."""
    gradebooks = [path for path in (arguments.canvas, arguments.moodle) if path]
    return [*gradebooks, *map(graded_path, gradebooks), *filter(None, [arguments.roster])]
